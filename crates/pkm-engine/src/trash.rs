//! Looking into the trash, and emptying it for good.

use jiff::Timestamp;
use pkm_store::{Purged, TrashMark, TrashSummary};

use crate::{Engine, Error, NoteId};

/// A note in the trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrashedNote {
    /// The note.
    pub id: NoteId,
    /// Its title.
    pub title: String,
    /// When it was deleted.
    pub deleted_at: Timestamp,
    /// Until then [`Engine::restore_note`] brings it back.
    pub restorable_until: Timestamp,
}

/// What emptying the trash would remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrashContents {
    /// How many notes.
    pub n_notes: usize,
    /// The one deleted first.
    pub oldest: Option<TrashedNote>,
    /// The one deleted last.
    pub newest: Option<TrashedNote>,
    /// Stands for these very notes.
    pub mark: TrashMark,
}

impl Engine {
    /// Up to `limit` notes in the trash, the last deleted first.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn trash(&self, limit: usize) -> Result<Vec<TrashedNote>, Error> {
        let trashed = self.store().list_trash(limit)?;
        Ok(trashed.into_iter().map(|line| self.trashed(line)).collect())
    }

    /// What [`Engine::empty_trash`] would remove: all of the trash, or what was deleted before a
    /// time.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn trash_contents(
        &self,
        deleted_before: Option<Timestamp>,
    ) -> Result<TrashContents, Error> {
        let contents = self.store().trash_contents(deleted_before)?;
        Ok(TrashContents {
            n_notes: contents.n_notes,
            oldest: contents.oldest.map(|line| self.trashed(line)),
            newest: contents.newest.map(|line| self.trashed(line)),
            mark: contents.mark,
        })
    }

    /// Removes for good what is in the trash, or what was deleted before a time, with all
    /// revisions; there is no way back. With the mark of [`Engine::trash_contents`], only if the
    /// trash still holds the same notes.
    ///
    /// # Errors
    ///
    /// [`Error::TrashChanged`].
    pub fn empty_trash(
        &self,
        deleted_before: Option<Timestamp>,
        expected: Option<&TrashMark>,
    ) -> Result<Purged, Error> {
        Ok(self.store().empty_trash(deleted_before, expected)?)
    }

    pub(crate) fn restorable_until(&self, deleted_at: Timestamp) -> Timestamp {
        deleted_at
            .checked_add(self.trash_retention())
            .unwrap_or(Timestamp::MAX)
    }

    /// What is deleted before this time has been in the trash for long enough.
    pub(crate) fn trash_limit(&self) -> Option<Timestamp> {
        Timestamp::now().checked_sub(self.trash_retention()).ok()
    }

    fn trashed(&self, line: TrashSummary) -> TrashedNote {
        TrashedNote {
            id: line.note.id,
            title: line.note.title,
            deleted_at: line.deleted_at,
            restorable_until: self.restorable_until(line.deleted_at),
        }
    }
}
