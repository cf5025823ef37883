//! JSON for `--json`, with the field names that MCP clients see.

use pkm_engine::{
    Completeness, Deleted, Hit, IndexState, Indexed, Job, JobState, ModelState, Note, NoteId,
    NoteRevision, NoteSummary, RevisionSummary, SearchAnswer, Status, TrashedNote, Written,
};
use serde_json::{Map, Value, json};

pub(crate) fn note(note: &Note) -> Value {
    json!({
        "id": note.id.0,
        "title": note.title,
        "content": note.content,
        "tags": note.tags,
        "folder": note.folder,
        "created_at": note.created_at,
        "updated_at": note.updated_at,
        "revision": note.revision,
        "truncated": false,
        "n_lines": note.content.lines().count(),
    })
}

pub(crate) fn note_revision(former: &NoteRevision) -> Value {
    json!({
        "id": former.id.0,
        "title": former.title,
        "content": former.content,
        "tags": former.tags,
        "folder": former.folder,
        "changed_at": former.changed_at,
        "revision": former.revision,
    })
}

pub(crate) fn note_list(notes: &[NoteSummary], total: usize) -> Value {
    let notes: Vec<Value> = notes
        .iter()
        .map(|note| {
            json!({
                "id": note.id.0,
                "title": note.title,
                "tags": note.tags,
                "folder": note.folder,
                "created_at": note.created_at,
                "updated_at": note.updated_at,
                "revision": note.revision,
                "size_bytes": note.size_bytes,
            })
        })
        .collect();
    json!({ "notes": notes, "total": total })
}

pub(crate) fn written(written: &Written) -> Value {
    let indexed = match written.indexed {
        Indexed::Now => "now",
        Indexed::Pending => "pending",
    };
    json!({ "id": written.id.0, "revision": written.revision, "indexed": indexed })
}

pub(crate) fn deleted(deleted: &Deleted) -> Value {
    json!({
        "id": deleted.id.0,
        "deleted": true,
        "restorable_until": deleted.restorable_until,
    })
}

pub(crate) fn history(id: NoteId, revisions: &[RevisionSummary]) -> Value {
    let revisions: Vec<Value> = revisions
        .iter()
        .map(|revision| {
            json!({
                "revision": revision.revision,
                "title": revision.title,
                "changed_at": revision.changed_at,
                "size_bytes": revision.size_bytes,
            })
        })
        .collect();
    json!({ "id": id.0, "revisions": revisions })
}

pub(crate) fn trash(trashed: &[TrashedNote]) -> Value {
    let notes: Vec<Value> = trashed
        .iter()
        .map(|note| {
            json!({
                "id": note.id.0,
                "title": note.title,
                "deleted_at": note.deleted_at,
                "restorable_until": note.restorable_until,
            })
        })
        .collect();
    json!({ "notes": notes })
}

pub(crate) fn search_answer(answer: &SearchAnswer) -> Value {
    let matches: Vec<Value> = answer.hits.iter().map(hit).collect();
    let mut object = Map::new();
    object.insert("matches".to_owned(), Value::Array(matches));
    if let Some(cursor) = &answer.next_cursor {
        object.insert("next_cursor".to_owned(), json!(cursor));
    }
    object.insert("index".to_owned(), index(&answer.index));
    Value::Object(object)
}

fn hit(hit: &Hit) -> Value {
    let mut arms = Map::new();
    for (arm, rank) in [("keyword", hit.arms.keyword), ("vector", hit.arms.vector)] {
        if let Some(rank) = rank {
            arms.insert(arm.to_owned(), json!(rank));
        }
    }
    let mut value = json!({
        "id": hit.id.0,
        "title": hit.title,
        "snippet": hit.snippet,
        "score": hit.score,
        "folder": hit.folder,
        "tags": hit.tags,
        "heading": hit.heading,
        "lines": [hit.lines.0, hit.lines.1],
        "updated_at": hit.updated_at,
        "arms": arms,
    });
    if let (Some(similarity), Value::Object(object)) = (hit.similarity, &mut value) {
        object.insert("similarity".to_owned(), json!(similarity));
    }
    value
}

fn index(index: &IndexState) -> Value {
    let state = match index.state {
        Completeness::Complete => "complete",
        Completeness::Partial => "partial",
        Completeness::KeywordOnly => "keyword_only",
        Completeness::Empty => "empty",
    };
    let mut value = json!({ "state": state, "pending": index.pending });
    if let (Some(reason), Value::Object(object)) = (&index.reason, &mut value) {
        object.insert("reason".to_owned(), json!(reason));
    }
    value
}

pub(crate) fn job(job: &Job) -> Value {
    let mut value = json!({
        "job_id": job.id,
        "kind": job.kind,
        "scope": job.scope,
        "state": job_state(job.state),
        "done": job.done,
        "total": job.total,
        "message": job.message,
        "created_at": job.created_at,
    });
    if let Value::Object(object) = &mut value {
        if let Some(eta) = job.eta {
            object.insert("eta_seconds".to_owned(), json!(eta.as_secs()));
        }
        if let Some(error) = &job.error {
            object.insert("error".to_owned(), json!(error));
        }
        if let Some(finished_at) = job.finished_at {
            object.insert("finished_at".to_owned(), json!(finished_at));
        }
    }
    value
}

pub(crate) fn jobs(jobs: &[Job]) -> Value {
    Value::Array(jobs.iter().map(job).collect())
}

pub(crate) fn job_state(state: JobState) -> &'static str {
    match state {
        JobState::Queued => "queued",
        JobState::Running => "running",
        JobState::Done => "done",
        JobState::Failed => "failed",
        JobState::Cancelled => "cancelled",
    }
}

/// `note` is a sentence about how the model came to be the one in use.
pub(crate) fn status(status: &Status, note: Option<&str>) -> Value {
    let (state, reason) = match &status.model.state {
        ModelState::Loading => ("loading", None),
        ModelState::Ready => ("ready", None),
        ModelState::Absent { reason } => ("absent", Some(reason.as_str())),
        ModelState::Failed { reason } => ("failed", Some(reason.as_str())),
        ModelState::Away { reason } => ("away", Some(reason.as_str())),
    };
    json!({
        "notes": status.n_notes,
        "trashed": status.n_trashed,
        "chunks": status.n_chunks,
        "indexed": status.n_indexed,
        "pending": status.n_pending,
        "failed": status.n_failed,
        "model": {
            "name": status.model.name,
            "fingerprint": status.model.fingerprint,
            "dim": status.model.dim,
            "device": status.model.device,
            "precision": status.model.precision.map(|precision| precision.to_string()),
            "state": state,
            "reason": reason,
            "note": note,
        },
        "vectors": {
            "kind": status.vectors.kind,
            "n": status.vectors.n_vectors,
            "size_bytes": status.vectors.size_bytes,
        },
        "store": {
            "path": status.store.path,
            "size_bytes": status.store.size_bytes,
            "schema": status.store.schema,
            "writable": status.store.writable,
        },
        "jobs": jobs(&status.jobs),
    })
}
