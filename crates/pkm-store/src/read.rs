//! Reading notes and what the folder holds.

use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::error::Fault;
use crate::filter::Condition;
use crate::key::from_micros;
use crate::{
    Count, Error, Filter, ListPosition, Note, NoteId, NotePage, NoteSummary, Result, Sort, Source,
    SourceEntry, Store,
};

impl Store {
    /// A live note.
    ///
    /// # Errors
    ///
    /// [`Error::Trashed`] for one in the trash, [`Error::NotFound`] for an id that was never
    /// given or was purged.
    pub fn get_note(&self, id: NoteId) -> Result<Note> {
        self.read("reading a note", |tx| {
            let (note, deleted_at) = note(tx, id)?.ok_or(Error::NotFound { id })?;
            match deleted_at {
                Some(at) => Err(Error::Trashed {
                    id,
                    deleted_at: from_micros(at),
                }
                .into()),
                None => Ok(note),
            }
        })
    }

    /// The live ones of these notes, in the order asked.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn get_notes(&self, ids: &[NoteId]) -> Result<Vec<Note>> {
        self.read("reading notes", |tx| {
            let mut notes = Vec::with_capacity(ids.len());
            for id in ids {
                if let Some((note, None)) = note(tx, *id)? {
                    notes.push(note);
                }
            }
            Ok(notes)
        })
    }

    /// A page of the live notes under `filter`, at most `limit` after `after`. A position of
    /// another order starts from the beginning.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn list_notes(
        &self,
        filter: &Filter,
        sort: Sort,
        limit: usize,
        after: Option<&ListPosition>,
    ) -> Result<NotePage> {
        let condition = Condition::of_any(filter);
        let after = after.filter(|after| after.sort == sort);
        let (key, order, beyond) = match sort {
            Sort::Updated => ("updated_at", "DESC", "<"),
            Sort::Created => ("created_at", "DESC", "<"),
            Sort::Title => ("title_key", "ASC", ">"),
        };
        // A key is compared as what its column holds: SQLite sorts all numbers before all text.
        let bound = match sort {
            Sort::Updated | Sort::Created => "CAST(?2 AS INTEGER)",
            Sort::Title => "?2",
        };
        self.read("listing notes", |tx| {
            let total: i64 = tx
                .prepare_cached(&format!(
                    "SELECT count(*) FROM note n WHERE n.deleted_at IS NULL AND {}",
                    condition.sql
                ))?
                .query_row(condition.params().as_slice(), |row| row.get(0))?;
            let mut sql = format!(
                "SELECT {SUMMARY}, CAST(n.{key} AS TEXT) FROM note n
                 WHERE n.deleted_at IS NULL AND (?1 IS NULL OR (n.{key}, n.id) {beyond} ({bound}, ?1))
                 AND {}",
                numbered(&condition.sql, 4)
            );
            sql.push_str(&format!(" ORDER BY n.{key} {order}, n.id {order} LIMIT ?3"));
            let position = (after.map(|after| after.id.0), after.map(|after| &after.key));
            let n_wanted = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
            let mut values: Vec<&dyn rusqlite::ToSql> = vec![&position.0, &position.1, &n_wanted];
            values.extend(condition.params());
            let mut query = tx.prepare_cached(&sql)?;
            let mut rows = query.query(values.as_slice())?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push((summary(tx, row)?, row.get::<_, String>(N_SUMMARY)?));
            }
            let more = found.len() > limit;
            found.truncate(limit);
            let next = found.last().filter(|_| more).map(|(note, key)| ListPosition {
                sort,
                key: key.clone(),
                id: note.id,
            });
            Ok(NotePage {
                notes: found.into_iter().map(|(note, _)| note).collect(),
                next,
                total: usize::try_from(total).unwrap_or(0),
            })
        })
    }

    /// Up to `limit` live notes after id `after` whose chunks were made by another chunker.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn notes_not_chunked_by(
        &self,
        chunked_by: &str,
        after: NoteId,
        limit: usize,
    ) -> Result<Vec<Note>> {
        self.read("reading notes", |tx| {
            let mut query = tx.prepare_cached(
                "SELECT id FROM note
                 WHERE id > ?1 AND deleted_at IS NULL AND chunked_by <> ?2 ORDER BY id LIMIT ?3",
            )?;
            let ids: Vec<NoteId> = query
                .query_map(params![after.0, chunked_by, limit as i64], |row| {
                    row.get(0).map(NoteId)
                })?
                .collect::<rusqlite::Result<_>>()?;
            let mut notes = Vec::with_capacity(ids.len());
            for id in ids {
                notes.extend(note(tx, id)?.map(|(note, _)| note));
            }
            Ok(notes)
        })
    }

    /// The live note imported from `path` below `root`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn find_by_source(&self, root: &str, path: &str) -> Result<Option<SourceEntry>> {
        self.read("looking a file up", |tx| {
            Ok(tx
                .prepare_cached(
                    "SELECT source_path, id, source_hash FROM note
                     WHERE source_root = ?1 AND source_path = ?2 AND deleted_at IS NULL",
                )?
                .query_row([root, path], source_entry)
                .optional()?)
        })
    }

    /// Every live note imported from `root`, by path.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn sources(&self, root: &str) -> Result<Vec<SourceEntry>> {
        self.read("looking files up", |tx| {
            let mut query = tx.prepare_cached(
                "SELECT source_path, id, source_hash FROM note
                 WHERE source_root = ?1 AND deleted_at IS NULL ORDER BY source_path",
            )?;
            let entries = query.query_map([root], source_entry)?;
            Ok(entries.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The tags of live notes, most used first, then by name.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn tags(&self) -> Result<Vec<Count>> {
        // Beside a lone min(), SQLite takes the bare column from the row that has the minimum.
        self.count(
            "counting tags",
            "SELECT tag, count(*), min(note_id) FROM note_tag t
             WHERE EXISTS (SELECT 1 FROM note n WHERE n.id = t.note_id AND n.deleted_at IS NULL)
             GROUP BY tag_key ORDER BY count(*) DESC, tag_key",
        )
    }

    /// The folders of live notes, by name.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn folders(&self) -> Result<Vec<Count>> {
        self.count(
            "counting folders",
            "SELECT folder, count(*), min(id) FROM note WHERE deleted_at IS NULL
             GROUP BY folder_key ORDER BY folder_key",
        )
    }

    fn count(&self, doing: &'static str, sql: &str) -> Result<Vec<Count>> {
        self.read(doing, |tx| {
            let mut query = tx.prepare_cached(sql)?;
            let counts = query.query_map([], |row| {
                Ok(Count {
                    name: row.get(0)?,
                    n_notes: crate::chunk::size(row, 1)?,
                })
            })?;
            Ok(counts.collect::<rusqlite::Result<_>>()?)
        })
    }
}

/// The columns of [`summary`], of note `n`.
pub(crate) const SUMMARY: &str =
    "n.id, n.title, n.folder, n.created_at, n.updated_at, n.revision, n.size_bytes";

/// How many they are.
pub(crate) const N_SUMMARY: usize = 7;

pub(crate) fn summary(tx: &Transaction<'_>, row: &Row<'_>) -> Result<NoteSummary, Fault> {
    let id = NoteId(row.get(0)?);
    Ok(NoteSummary {
        id,
        title: row.get(1)?,
        tags: tags_of(tx, id)?,
        folder: row.get(2)?,
        created_at: from_micros(row.get(3)?),
        updated_at: from_micros(row.get(4)?),
        revision: row.get(5)?,
        size_bytes: row.get::<_, i64>(6)?.unsigned_abs(),
    })
}

/// A note, live or in the trash, and since when it is there.
pub(crate) fn note(tx: &Transaction<'_>, id: NoteId) -> Result<Option<(Note, Option<i64>)>, Fault> {
    let found = tx
        .prepare_cached(
            "SELECT title, content, folder, created_at, updated_at, revision, source_root,
                    source_path, source_hash, chunked_by, deleted_at
             FROM note WHERE id = ?1",
        )?
        .query_row([id.0], |row| {
            let note = Note {
                id,
                title: row.get(0)?,
                content: row.get(1)?,
                tags: Vec::new(),
                folder: row.get(2)?,
                created_at: from_micros(row.get(3)?),
                updated_at: from_micros(row.get(4)?),
                revision: row.get(5)?,
                source: source(row, 6)?,
                chunked_by: row.get(9)?,
            };
            Ok((note, row.get(10)?))
        })
        .optional()?;
    let Some((mut note, deleted_at)) = found else {
        return Ok(None);
    };
    note.tags = tags_of(tx, id)?;
    Ok(Some((note, deleted_at)))
}

pub(crate) fn tags_of(tx: &Transaction<'_>, id: NoteId) -> Result<Vec<String>, Fault> {
    let mut query =
        tx.prepare_cached("SELECT tag FROM note_tag WHERE note_id = ?1 ORDER BY ordinal")?;
    let tags = query.query_map([id.0], |row| row.get(0))?;
    Ok(tags.collect::<rusqlite::Result<_>>()?)
}

/// The source in the three columns from `first`.
pub(crate) fn source(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Source>> {
    let Some(root) = row.get(first)? else {
        return Ok(None);
    };
    Ok(Some(Source {
        root,
        path: row.get(first + 1)?,
        hash: row.get(first + 2)?,
    }))
}

fn source_entry(row: &Row<'_>) -> rusqlite::Result<SourceEntry> {
    Ok(SourceEntry {
        path: row.get(0)?,
        id: NoteId(row.get(1)?),
        hash: row.get(2)?,
    })
}

/// `sql` with its `?` numbered from `first`, to stand beside parameters that are numbered.
fn numbered(sql: &str, first: usize) -> String {
    let mut parts = sql.split('?');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (at, part) in parts.enumerate() {
        out.push_str(&format!("?{}{part}", first + at));
    }
    out
}
