//! The engine through its public face, on real folders, with a model-free embedder.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail as its tests do")]

mod away;
mod changes;
mod notes;
mod search;
mod transfer;
mod work;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pkm_embed::HashEmbedder;
use pkm_engine::{
    Engine, Filter, Hit, ModelSource, NoteDraft, NoteId, SearchAnswer, SearchMode, SearchRequest,
    Settings, Worker,
};

/// Long enough for anything that a test waits for; nothing waits that long when all is well.
const PATIENCE: Duration = Duration::from_secs(60);

fn open(dir: &Path, worker: Worker) -> Engine {
    open_with(
        dir,
        worker,
        ModelSource::Ready(Arc::new(HashEmbedder::new())),
    )
}

fn open_with(dir: &Path, worker: Worker, model: ModelSource) -> Engine {
    Engine::open(Settings {
        data_dir: dir.to_owned(),
        model,
        worker,
        trash_retention_days: 30,
    })
    .unwrap()
}

fn no_model() -> ModelSource {
    ModelSource::Absent {
        name: "none".into(),
        reason: "no model here; run `pkm model pull`".into(),
    }
}

fn draft(title: &str, content: &str) -> NoteDraft {
    NoteDraft {
        title: title.into(),
        content: content.into(),
        ..NoteDraft::default()
    }
}

fn add(engine: &Engine, title: &str, content: &str) -> NoteId {
    engine.add_note(draft(title, content)).unwrap().id
}

fn request(query: &str, mode: SearchMode) -> SearchRequest {
    SearchRequest {
        query: query.into(),
        mode,
        filter: Filter::default(),
        limit: 10,
        cursor: None,
        min_score: None,
    }
}

fn find(engine: &Engine, query: &str, mode: SearchMode) -> SearchAnswer {
    engine.search(&request(query, mode)).unwrap()
}

fn ids(hits: &[Hit]) -> Vec<NoteId> {
    hits.iter().map(|hit| hit.id).collect()
}
