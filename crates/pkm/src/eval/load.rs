//! The notes of a set, brought into a data folder.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use anyhow::Result;
use pkm_engine::{
    DryRun, Engine, Filter, ImportRequest, ListRequest, MAX_LIST_LIMIT, NoteDraft, NoteId, Prune,
    Sort,
};
use serde::{Deserialize, Serialize};

use super::set::{Document, Notes, note_name};
use crate::interrupt::Interrupt;
use crate::out;
use crate::progress::{Progress, Unit};
use crate::report::Failure;

/// Where a data folder that is kept remembers which note is which.
const NAMES_FILE: &str = "eval-names.json";

/// Brings the notes in, unless an earlier run did, and gives the name of each in the judgements.
pub(crate) fn notes(
    engine: &Engine,
    notes: &Notes,
    data_dir: &Path,
    interrupt: &Interrupt,
) -> Result<HashMap<NoteId, String>> {
    match notes {
        Notes::Folder(folder) => import(engine, folder, interrupt),
        Notes::Documents(documents) => add(engine, documents, data_dir, interrupt),
    }
}

fn import(
    engine: &Engine,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<HashMap<NoteId, String>> {
    let progress = Progress::new("importing", Unit::Things);
    let request = ImportRequest {
        root: folder.to_owned(),
        into: String::new(),
        prune: Prune::Remove,
        dry_run: DryRun::No,
    };
    let report = engine.import_folder(&request, &mut |step| {
        progress.set(step.done as u64, step.total as u64, &step.path);
        interrupt.flow()
    })?;
    progress.finish();
    for (path, reason) in &report.skipped {
        out::notice(&format!("skipped `{path}`: {reason}"));
    }
    let mut names = HashMap::new();
    let mut request = ListRequest {
        filter: Filter::default(),
        sort: Sort::Title,
        limit: MAX_LIST_LIMIT,
        cursor: None,
    };
    loop {
        let page = engine.list_notes(&request)?;
        for note in page.notes {
            let note = engine.get_note(note.id)?;
            let source = note.source.as_ref().ok_or_else(|| foreign_notes(note.id))?;
            names.insert(note.id, note_name(&source.path));
        }
        request.cursor = page.next_cursor;
        if request.cursor.is_none() {
            return Ok(names);
        }
    }
}

fn foreign_notes(id: NoteId) -> Failure {
    Failure::new(format!(
        "the folder of `--data-cache` holds a note that is not of this set: {id}"
    ))
    .hint("give each set a folder of its own")
}

/// What a kept data folder remembers: which documents were added, and as which notes.
#[derive(Serialize, Deserialize)]
struct Names {
    documents: u64,
    names: BTreeMap<i64, String>,
}

fn add(
    engine: &Engine,
    documents: &[Document],
    data_dir: &Path,
    interrupt: &Interrupt,
) -> Result<HashMap<NoteId, String>> {
    let names_path = data_dir.join(NAMES_FILE);
    let mut hasher = DefaultHasher::new();
    for document in documents {
        (&document.id, &document.title, &document.text).hash(&mut hasher);
    }
    let hash = hasher.finish();
    if let Ok(text) = std::fs::read_to_string(&names_path) {
        let kept: Names = serde_json::from_str(&text).map_err(|error| {
            Failure::new(format!("`{}` is not usable", names_path.display())).source(error)
        })?;
        if kept.documents == hash {
            return Ok(kept
                .names
                .into_iter()
                .map(|(id, name)| (NoteId(id), name))
                .collect());
        }
    }
    if engine.status()?.n_notes > 0 {
        return Err(Failure::new(
            "the folder of `--data-cache` holds other notes, or half of these",
        )
        .hint("remove it, or give another")
        .into());
    }
    let progress = Progress::new("adding", Unit::Things);
    let mut names = BTreeMap::new();
    for (i, document) in documents.iter().enumerate() {
        if interrupt.is_set() {
            return Err(Failure::new("stopped").into());
        }
        progress.set(i as u64, documents.len() as u64, &document.id);
        let title = if document.title.trim().is_empty() {
            &document.id
        } else {
            &document.title
        };
        let written = engine.add_note(NoteDraft {
            title: title.clone(),
            content: document.text.clone(),
            ..NoteDraft::default()
        })?;
        names.insert(written.id.0, note_name(&document.id));
    }
    progress.finish();
    let kept = Names {
        documents: hash,
        names,
    };
    std::fs::write(&names_path, serde_json::to_string(&kept)?).map_err(|error| {
        Failure::new(format!("cannot write `{}`", names_path.display())).source(error)
    })?;
    Ok(kept
        .names
        .into_iter()
        .map(|(id, name)| (NoteId(id), name))
        .collect())
}
