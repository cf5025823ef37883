//! What can go wrong with notes on disk, by what the caller can do about it.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::{ErrorCode, ffi};

use crate::{NoteId, PassageHash, Revision};

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder or the file cannot be opened or made.
    #[error("cannot open the notes in `{}`", path.display())]
    Open {
        /// The file or folder.
        path: PathBuf,
        /// What the system or SQLite said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A newer program wrote the file; nothing was touched.
    #[error(
        "`{}` has schema {found}, this program knows up to {supported}; use a newer program",
        path.display()
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The file's schema.
        found: i64,
        /// The newest schema of this program.
        supported: i64,
    },
    /// The file's schema is older, and it cannot be brought up to date because it is read-only.
    #[error(
        "`{}` has schema {found} and must be brought to {supported}, but it is read-only",
        path.display()
    )]
    OlderSchemaReadOnly {
        /// The file.
        path: PathBuf,
        /// The file's schema.
        found: i64,
        /// The schema that this program needs.
        supported: i64,
    },
    /// A write was asked of a folder or file that does not permit it.
    #[error("`{}` is read-only: notes there can be read and searched, not changed", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The disk is full; the write was rolled back whole.
    #[error("the disk is full while {doing}; nothing was changed")]
    DiskFull {
        /// What was being done.
        doing: &'static str,
    },
    /// The file is damaged, cut short, or not a store of notes.
    #[error("`{}` is damaged or not a store of notes: {detail}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// Another process held the write lock for longer than the store waits.
    #[error("another process kept the notes locked while {doing}; try again")]
    Busy {
        /// What was being done.
        doing: &'static str,
    },
    /// No note has this id.
    #[error("there is no note {id}")]
    NotFound {
        /// The id asked for.
        id: NoteId,
    },
    /// The note is in the trash, from which it can be restored.
    #[error("note {id} is in the trash since {deleted_at}; restore it first")]
    Trashed {
        /// The id asked for.
        id: NoteId,
        /// When it was deleted.
        deleted_at: Timestamp,
    },
    /// The note has no such revision.
    #[error("note {id} has no revision {revision}")]
    NoSuchRevision {
        /// The note.
        id: NoteId,
        /// The revision asked for.
        revision: Revision,
    },
    /// The note has moved on since the caller read it; nothing was changed.
    #[error("note {id} is at revision {found}, the change was made for {expected}")]
    Conflict {
        /// The note.
        id: NoteId,
        /// The revision that the caller expected.
        expected: Revision,
        /// The revision that the note has.
        found: Revision,
    },
    /// The trash holds other notes than the caller saw; nothing was removed.
    #[error(
        "the trash has changed and holds {n_notes} notes of this kind now; nothing was removed"
    )]
    TrashChanged {
        /// How many notes would be removed now.
        n_notes: usize,
    },
    /// Another live note was already imported from this file.
    #[error("note {id} was already imported from `{path}` in `{root}`")]
    SourceTaken {
        /// The live note with this source.
        id: NoteId,
        /// The root of the import.
        root: String,
        /// The file below the root.
        path: String,
    },
    /// A chunk's byte range is not a slice of the note's content.
    #[error("chunk {ordinal} covers bytes {start}..{end}, which is no slice of the content")]
    InvalidChunk {
        /// The chunk's position in the note, from 0.
        ordinal: usize,
        /// First byte.
        start: usize,
        /// One past the last byte.
        end: usize,
    },
    /// A vector that must never be stored; none of its batch was.
    #[error("the vector of passage {hash} {why}")]
    InvalidVector {
        /// The passage.
        hash: PassageHash,
        /// What is wrong with it.
        why: String,
    },
    /// A fingerprint's vectors all have one number of dimensions.
    #[error("vectors of `{fingerprint}` have {expected} dimensions, not {found}")]
    Dimension {
        /// The fingerprint.
        fingerprint: String,
        /// The dimensions of the vectors already stored.
        expected: usize,
        /// The dimensions offered.
        found: usize,
    },
    /// No job has this id.
    #[error("there is no job {id}")]
    NoSuchJob {
        /// The id asked for.
        id: i64,
    },
    /// Anything else that SQLite refused.
    #[error("the store failed while {doing}")]
    Sqlite {
        /// What was being done.
        doing: &'static str,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
}

/// A result of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong inside a transaction, before it is known what was being done.
#[derive(Debug)]
pub(crate) enum Fault {
    Sql(rusqlite::Error),
    Known(Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<rusqlite::types::FromSqlError> for Fault {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Sql(error.into())
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Known(error)
    }
}

impl Fault {
    /// Whether waiting and doing it all again can help.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Sql(error) if matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        ))
    }

    /// Whether nothing is left of the disk.
    pub(crate) fn is_full(&self) -> bool {
        let failure = match self {
            Self::Known(_) => None,
            Self::Sql(source) => source.sqlite_error(),
        };
        failure.is_some_and(|failure| {
            failure.code == ErrorCode::DiskFull
                // The index of the log could not grow.
                || failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE
        })
    }

    /// The public error, for the file at `path`.
    pub(crate) fn while_doing(self, doing: &'static str, path: &Path) -> Error {
        if self.is_full() {
            return Error::DiskFull { doing };
        }
        let source = match self {
            Self::Known(error) => return error,
            Self::Sql(source) => source,
        };
        let Some(failure) = source.sqlite_error() else {
            return Error::Sqlite { doing, source };
        };
        match failure.code {
            ErrorCode::ReadOnly => Error::ReadOnly {
                path: path.to_owned(),
            },
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Error::Corrupt {
                path: path.to_owned(),
                detail: source.to_string(),
            },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::Busy { doing },
            _ => Error::Sqlite { doing, source },
        }
    }
}
