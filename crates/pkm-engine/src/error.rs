//! What can go wrong, by what the caller can do about it.

use crate::{JobId, NoteId, Revision};

/// The engine's error. Each variant is one thing that a caller can do next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument breaks a rule: say it again, corrected.
    #[error("`{field}` {reason}")]
    Invalid {
        /// The argument's name as callers know it.
        field: &'static str,
        /// What is wrong with it and what would be right, to be read after the name.
        reason: String,
    },
    /// There is no such note, and none in the trash.
    #[error("there is no note {id}")]
    NotFound {
        /// The id asked for.
        id: NoteId,
    },
    /// The note is in the trash: restore it first.
    #[error("note {id} is in the trash; restore it to use it again")]
    Trashed {
        /// The id asked for.
        id: NoteId,
    },
    /// The note has no such former state.
    #[error("note {id} has no revision {revision}")]
    NoRevision {
        /// The note.
        id: NoteId,
        /// The revision asked for.
        revision: Revision,
    },
    /// There is no such job.
    #[error("there is no job {id}")]
    NoJob {
        /// The id asked for.
        id: JobId,
    },
    /// The note has changed since it was read: read it again, then edit.
    #[error(
        "note {id} is at revision {found}, not at {expected}; read it again before you edit it"
    )]
    Conflict {
        /// The note.
        id: NoteId,
        /// The revision the caller had read.
        expected: Revision,
        /// The revision it has now.
        found: Revision,
    },
    /// The trash holds other notes than the caller saw: look again. Nothing was removed.
    #[error("the trash has changed meanwhile; nothing was removed")]
    TrashChanged {
        /// How many notes would be removed now.
        n_notes: usize,
    },
    /// The data folder is kept busy by others: try again shortly.
    #[error("the data folder is busy; try again in a moment")]
    Busy {
        /// What kept it busy.
        #[source]
        source: pkm_store::Error,
    },
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// The vectors at hand were made by another model: reindex, or go back to that model.
    #[error(
        "the notes were embedded with {built_with}, the model in use is {model}; \
         run `pkm reindex` (or the tool `reindex_notes`) to embed them with this one"
    )]
    StaleIndex {
        /// Model and dimension of the vectors at hand.
        built_with: String,
        /// Model and dimension in use.
        model: String,
    },
    /// No model can be used, so nothing can be found by meaning.
    #[error("search by meaning is not available: {reason}")]
    NoModel {
        /// Why, and what to do about it.
        reason: String,
    },
    /// The data folder cannot be written.
    #[error("cannot write to the data folder")]
    ReadOnly {
        /// The store's words.
        #[source]
        source: pkm_store::Error,
    },
    /// No space is left for the data folder: nothing of this call was kept.
    #[error("no space is left for the data folder; nothing of this change was kept")]
    DiskFull {
        /// The store's words.
        #[source]
        source: pkm_store::Error,
    },
    /// A file or folder of the user's cannot be read or written.
    #[error("{doing} `{path}` failed")]
    Folder {
        /// Such as `reading`.
        doing: &'static str,
        /// The file or folder.
        path: String,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// Something that the caller can do nothing about.
    #[error("{doing} failed")]
    Internal {
        /// What was being done.
        doing: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<pkm_store::Error> for Error {
    fn from(source: pkm_store::Error) -> Self {
        use pkm_store::Error as Store;
        match source {
            Store::NotFound { id } => Self::NotFound { id },
            Store::Trashed { id, .. } => Self::Trashed { id },
            Store::NoSuchRevision { id, revision } => Self::NoRevision { id, revision },
            Store::NoSuchJob { id } => Self::NoJob { id },
            Store::Conflict {
                id,
                expected,
                found,
            } => Self::Conflict {
                id,
                expected,
                found,
            },
            Store::TrashChanged { n_notes } => Self::TrashChanged { n_notes },
            Store::ReadOnly { .. } => Self::ReadOnly { source },
            Store::DiskFull { .. } => Self::DiskFull { source },
            Store::Busy { .. } => Self::Busy { source },
            source => Self::Internal {
                doing: "using the data folder",
                source: Box::new(source),
            },
        }
    }
}

impl Error {
    pub(crate) fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid {
            field,
            reason: reason.into(),
        }
    }

    /// What it means to a caller that `doing` could not embed: nothing by meaning for now, where
    /// the model is on a server that is away.
    pub(crate) fn embedding(doing: &'static str, source: pkm_embed::Error) -> Self {
        if source.is_transient() {
            let reason = reason(&source);
            return Self::NoModel { reason };
        }
        Self::Internal {
            doing,
            source: Box::new(source),
        }
    }
}

/// Why the model cannot be used and what to do about it, as one sentence within another.
pub(crate) fn reason(error: &pkm_embed::Error) -> String {
    chain(error).replace("; hint: ", "; ")
}

/// The error and its causes in one line, for a place that keeps words only.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut words = String::new();
    // A way out stands behind the message that it belongs to; what follows there are causes.
    let mut way_out = None;
    let mut next = Some(error);
    while let Some(error) = next {
        let message = error.to_string();
        let (message, hint) = message.split_once("; hint: ").unwrap_or((&message, ""));
        if !words.is_empty() {
            words.push_str(": ");
        }
        words.push_str(message);
        if !hint.is_empty() && way_out.is_none() {
            way_out = Some(hint.to_owned());
        }
        next = error.source();
    }
    if let Some(hint) = way_out {
        words.push_str("; ");
        words.push_str(&hint);
    }
    words
}
