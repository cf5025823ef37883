//! The store itself: one file, one writer, many readers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::Fault;
use crate::open::{self, Mode};
use crate::pending::CountsCache;
use crate::{Error, Result};

/// Readers kept open between reads.
const MAX_IDLE_READERS: usize = 8;

/// How often a transaction that another process kept waiting is begun anew; each try waits
/// for [`open::BUSY_TIMEOUT`] first.
const MAX_TRIES: usize = 6;

/// Notes in one folder. Cheap to share between threads; other processes may have the same
/// folder open.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    path: PathBuf,
    mode: Mode,
    is_full: bool,
    // Dropped in this order: the writer last, so that it closes the log.
    counts: Mutex<Option<CountsCache>>,
    readers: Mutex<Vec<Connection>>,
    writer: Mutex<Connection>,
}

/// Whether a store can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It can.
    ReadWrite,
    /// The folder or the file does not permit it, or the disk is full.
    ReadOnly,
}

impl Store {
    /// Opens the notes in `dir`, making the folder and the file if need be, and brings the
    /// file's schema up to date. A folder that cannot be written is opened for reading.
    ///
    /// # Errors
    ///
    /// [`Error::NewerSchema`], [`Error::OlderSchemaReadOnly`], [`Error::Corrupt`],
    /// [`Error::DiskFull`], [`Error::Open`].
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(open::FILE_NAME);
        let open::Opened {
            conn,
            mode,
            is_full,
        } = open::open(dir, &path)?;
        Ok(Self {
            dir: dir.to_owned(),
            path,
            mode,
            is_full,
            counts: Mutex::new(None),
            readers: Mutex::new(Vec::new()),
            writer: Mutex::new(conn),
        })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it can be changed.
    pub fn access(&self) -> Access {
        match self.mode {
            Mode::ReadWrite => Access::ReadWrite,
            Mode::ReadOnly | Mode::Immutable => Access::ReadOnly,
        }
    }

    /// Size of the file and its log.
    pub fn size_bytes(&self) -> u64 {
        let size = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
        size(&self.path) + size(&open::log_path(&self.path))
    }

    /// The schema of the file, which is the newest that this program knows.
    pub fn schema_version(&self) -> i64 {
        crate::schema::VERSION
    }

    /// Runs `body` in one read transaction: it sees one state of the store.
    pub(crate) fn read<T>(
        &self,
        doing: &'static str,
        mut body: impl FnMut(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T> {
        let conn = match lock(&self.readers).pop() {
            Some(conn) => conn,
            None => self.new_reader(doing)?,
        };
        let mut tries = 1;
        let answer = loop {
            let answer = conn
                .unchecked_transaction()
                .map_err(Fault::from)
                .and_then(|tx| body(&tx));
            match answer {
                Err(fault) if fault.is_busy() && tries < MAX_TRIES => tries += 1,
                answer => break answer,
            }
        };
        let mut readers = lock(&self.readers);
        if readers.len() < MAX_IDLE_READERS {
            readers.push(conn);
        }
        drop(readers);
        answer.map_err(|fault| fault.while_doing(doing, &self.path))
    }

    /// As [`read`](Self::read), on a connection that has seen nothing yet.
    pub(crate) fn read_afresh<T>(
        &self,
        doing: &'static str,
        body: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T> {
        let conn = self.new_reader(doing)?;
        let answer = conn
            .unchecked_transaction()
            .map_err(Fault::from)
            .and_then(|tx| body(&tx));
        answer.map_err(|fault| fault.while_doing(doing, &self.path))
    }

    /// Runs `body` in one write transaction and commits it: all of it or nothing. `body` may
    /// run more than once.
    pub(crate) fn write<T>(
        &self,
        doing: &'static str,
        mut body: impl FnMut(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T> {
        if self.is_full {
            return Err(Error::DiskFull { doing });
        }
        if self.access() == Access::ReadOnly {
            return Err(Error::ReadOnly {
                path: self.path.clone(),
            });
        }
        let mut conn = lock(&self.writer);
        let mut tries = 1;
        loop {
            match attempt(&mut conn, &mut body) {
                Err(fault) if fault.is_busy() && tries < MAX_TRIES => {
                    tracing::debug!(doing, tries, "another process is writing; trying again");
                    tries += 1;
                }
                answer => return answer.map_err(|fault| fault.while_doing(doing, &self.path)),
            }
        }
    }

    pub(crate) fn new_reader(&self, doing: &'static str) -> Result<Connection> {
        open::reader(&self.path, self.mode).map_err(|fault| fault.while_doing(doing, &self.path))
    }

    pub(crate) fn counts_cache(&self) -> MutexGuard<'_, Option<CountsCache>> {
        lock(&self.counts)
    }
}

fn attempt<T>(
    conn: &mut Connection,
    body: &mut impl FnMut(&Transaction<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let answer = body(&tx)?;
    tx.commit()?;
    Ok(answer)
}

/// A thread that died in a transaction left it rolled back, so the connection is as good as new.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunking, NewNote};

    #[test]
    fn a_full_disk_refuses_the_write_and_loses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let limit = |n_pages: i64| {
            let writer = lock(&store.writer);
            writer
                .pragma_update_and_check(None, "max_page_count", n_pages, |_| Ok(()))
                .unwrap();
        };
        let add = |n: usize| {
            let content = format!("text {n} ").repeat(2_000);
            let note = NewNote {
                content,
                ..NewNote::default()
            };
            let chunking = Chunking {
                by: "test",
                chunks: &[],
            };
            store.add_note(&note, chunking, jiff::Timestamp::UNIX_EPOCH)
        };
        limit(60);
        let mut ids = Vec::new();
        let error = loop {
            match add(ids.len()) {
                Ok(written) => ids.push(written.id),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(
                error,
                Error::DiskFull {
                    doing: "adding a note"
                }
            ),
            "{error:?}"
        );
        assert_eq!(store.counts("f").unwrap().n_notes, ids.len());
        for id in &ids {
            assert!(store.get_note(*id).is_ok());
        }
        limit(10_000);
        assert!(add(0).is_ok());
        assert_eq!(store.check().unwrap(), []);
    }
}
