//! The log of writes to notes, and a watch that sees the commits of every process.

use std::path::PathBuf;

use rusqlite::{Connection, Transaction, params};

use crate::error::Fault;
use crate::{NoteId, Result, Store};

/// Writes kept at least; who is further behind is told that anything may have changed.
const MIN_KEPT: i64 = 10_000;

/// Writes beyond [`MIN_KEPT`] at which the log is cut: not at every write.
const SLACK: i64 = 1_000;

/// Whether a list of the notes' titles reads otherwise after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    /// A note came, went, or has another title.
    Changed,
    Same,
}

/// What was committed between two looks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Commits {
    /// The notes that were written, ascending. None where only jobs, vectors or the like were.
    pub notes: Vec<NoteId>,
    /// Whether a note came, went, or has another title.
    pub relisted: bool,
    /// Whether more happened than could be named: every note may have changed.
    pub is_cut: bool,
}

/// Sees that something was committed, by whichever process.
#[derive(Debug)]
pub struct Watch {
    /// Never writes, so that its `PRAGMA data_version` tells of every commit there is.
    conn: Connection,
    path: PathBuf,
    data_version: i64,
    seq: i64,
}

impl Store {
    /// A watch on what is committed from now on.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn watch(&self) -> Result<Watch> {
        let doing = "beginning to watch the notes";
        let conn = self.new_reader(doing)?;
        let path = self.path().to_owned();
        let now = data_version(&conn).and_then(|version| Ok((version, last(&conn)?)));
        let (data_version, seq) = now.map_err(|fault| fault.while_doing(doing, &path))?;
        Ok(Watch {
            conn,
            path,
            data_version,
            seq,
        })
    }
}

impl Watch {
    /// What was committed since the last look; `None` where nothing was. Cheap enough to ask
    /// several times a second.
    ///
    /// # Errors
    ///
    /// When the file cannot be read; the next look begins where this one did.
    pub fn look(&mut self) -> Result<Option<Commits>> {
        let found = self.commits();
        found.map_err(|fault| fault.while_doing("watching the notes", &self.path))
    }

    fn commits(&mut self) -> Result<Option<Commits>, Fault> {
        let version = data_version(&self.conn)?;
        if version == self.data_version {
            return Ok(None);
        }
        let tx = self.conn.unchecked_transaction()?;
        let seq = last(&tx)?;
        let first: Option<i64> = tx
            .prepare_cached("SELECT min(seq) FROM note_change")?
            .query_row([], |row| row.get(0))?;
        // A position in the future belongs to another file, such as one before a backup was put
        // back.
        let is_cut = self.seq > seq || first.is_some_and(|first| self.seq < first - 1);
        let mut commits = Commits {
            notes: Vec::new(),
            relisted: is_cut,
            is_cut,
        };
        let mut query = tx.prepare_cached(
            "SELECT note_id, max(relisted) FROM note_change WHERE seq > ?1
             GROUP BY note_id ORDER BY note_id",
        )?;
        let mut rows = query.query([self.seq])?;
        while let Some(row) = rows.next()? {
            commits.notes.push(NoteId(row.get(0)?));
            commits.relisted |= row.get::<_, bool>(1)?;
        }
        drop(rows);
        drop(query);
        tx.commit()?;
        (self.data_version, self.seq) = (version, seq);
        Ok(Some(commits))
    }
}

fn data_version(conn: &Connection) -> Result<i64, Fault> {
    Ok(conn.query_row("PRAGMA data_version", [], |row| row.get(0))?)
}

/// The position of the last write, 0 before the first.
fn last(conn: &Connection) -> Result<i64, Fault> {
    // The newest rows are never cut off, so the greatest number given is always there.
    Ok(conn
        .prepare_cached("SELECT coalesce(max(seq), 0) FROM note_change")?
        .query_row([], |row| row.get(0))?)
}

/// Says that a note was written, and cuts the log's old end off when it has grown too long.
pub(crate) fn log(tx: &Transaction<'_>, id: NoteId, listing: Listing) -> Result<(), Fault> {
    tx.prepare_cached("INSERT INTO note_change (note_id, relisted) VALUES (?1, ?2)")?
        .execute(params![id.0, listing == Listing::Changed])?;
    let last = tx.last_insert_rowid();
    let first: i64 = tx
        .prepare_cached("SELECT min(seq) FROM note_change")?
        .query_row([], |row| row.get(0))?;
    if last - first > MIN_KEPT + SLACK {
        tx.prepare_cached("DELETE FROM note_change WHERE seq <= ?1")?
            .execute([last - MIN_KEPT])?;
    }
    Ok(())
}
