//! Opening the file: made, brought up to date, refused, or read only.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::Fault;
use crate::{Error, Result, schema};

/// The file in the data folder.
pub(crate) const FILE_NAME: &str = "notes.db";

/// How long SQLite waits for another process's lock.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// 384 floats and their key take 1.6 kB: five fit a page of this size, two the usual one.
const PAGE_SIZE: i64 = 8192;

/// The log is cut back to this size when it starts anew.
const MAX_LOG_BYTES: i64 = 64 << 20;

/// First bytes of every SQLite file.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// The file, open as well as it permits.
pub(crate) struct Opened {
    pub(crate) conn: Connection,
    pub(crate) mode: Mode,
    /// Whether it is not open for writing because the disk is full.
    pub(crate) is_full: bool,
}

/// How the file is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    ReadWrite,
    /// By SQLite's ordinary rules, beside a writer if need be.
    ReadOnly,
    /// The folder permits not even the files that readers share, so nobody can be writing.
    Immutable,
}

/// The write-ahead log of the file at `path`.
pub(crate) fn log_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Opens the file at `path` in `dir` as well as it permits.
pub(crate) fn open(dir: &Path, path: &Path) -> Result<Opened> {
    let failed = |source| Error::Open {
        path: dir.to_owned(),
        source,
    };
    match fs::create_dir_all(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::StorageFull => {
            return Err(Error::DiskFull {
                doing: "making the data folder",
            });
        }
        Err(error) => return Err(failed(Box::new(error))),
    }
    refuse_damaged(path)?;
    let doing = "opening the notes";
    let mut is_full = false;
    match open_to_write(path) {
        Ok(Some(conn)) => {
            let mode = Mode::ReadWrite;
            return Ok(Opened {
                conn,
                mode,
                is_full,
            });
        }
        Ok(None) => {}
        Err(fault) if !path.exists() => {
            return Err(match fault.while_doing(doing, path) {
                Error::ReadOnly { path } | Error::Open { path, .. } => Error::ReadOnly { path },
                Error::Sqlite { source, .. } if cannot_open(&source) => Error::ReadOnly {
                    path: path.to_owned(),
                },
                Error::Sqlite { source, .. } => failed(Box::new(source)),
                error => error,
            });
        }
        Err(Fault::Sql(error)) if cannot_open(&error) || is_readonly(&error) => {}
        // Not a byte is left for the log; what is there can still be read.
        Err(fault) if fault.is_full() => {
            tracing::debug!(path = %path.display(), "the disk is full; opened for reading only");
            is_full = true;
        }
        Err(fault) => return Err(fault.while_doing(doing, path)),
    }
    for mode in [Mode::ReadOnly, Mode::Immutable] {
        // A log that is not empty belongs to a writer or waits to be replayed: reading past
        // it would show an old state as the present one.
        if mode == Mode::Immutable && fs::metadata(log_path(path)).is_ok_and(|log| log.len() > 0) {
            break;
        }
        match reader(path, mode).and_then(|conn| check_schema(&conn, path).map(|()| conn)) {
            Ok(conn) => {
                return Ok(Opened {
                    conn,
                    mode,
                    is_full,
                });
            }
            Err(Fault::Sql(error)) if cannot_open(&error) || is_readonly(&error) => {}
            Err(fault) if fault.is_full() => {}
            Err(fault) => return Err(fault.while_doing(doing, path)),
        }
    }
    Err(Error::Open {
        path: path.to_owned(),
        source: "neither for writing nor for reading; check the permissions".into(),
    })
}

/// A further connection to a file that [`open`] has opened in `mode`; it cannot write.
pub(crate) fn reader(path: &Path, mode: Mode) -> Result<Connection, Fault> {
    let conn = match mode {
        Mode::ReadWrite => Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?,
        Mode::ReadOnly => Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?,
        Mode::Immutable => Connection::open_with_flags(
            format!("{}?immutable=1", uri(path)),
            OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_URI
                | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?,
    };
    settle(&conn)?;
    conn.pragma_update(None, "query_only", true)?;
    // The first read is what fails on a file that cannot be read in this mode.
    schema::version(&conn)?;
    Ok(conn)
}

/// `None` when the file opens but may not be written.
fn open_to_write(path: &Path) -> Result<Option<Connection>, Fault> {
    let mut tries = 1;
    loop {
        match try_to_write(path) {
            // Two processes that make the file at once can meet here without being made to wait.
            Err(fault) if fault.is_busy() && tries < 100 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            answer => return answer,
        }
    }
}

fn try_to_write(path: &Path) -> Result<Option<Connection>, Fault> {
    let mut conn = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    if conn.is_readonly(rusqlite::MAIN_DB)? {
        return Ok(None);
    }
    settle(&conn)?;
    conn.pragma_update(None, "page_size", PAGE_SIZE)?;
    // Before anything is written: a stranger's or a newer file stays as it was.
    let found = refuse_foreign(&conn, path)?;
    conn.pragma_update(None, "journal_mode", "wal")?;
    conn.pragma_update(None, "journal_size_limit", MAX_LOG_BYTES)?;
    if found != schema::VERSION {
        schema::migrate(&mut conn)?;
        check_schema(&conn, path)?;
    }
    Ok(Some(conn))
}

/// What every connection needs.
fn settle(conn: &Connection) -> Result<(), Fault> {
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(64);
    // An acknowledged write survives the loss of power.
    conn.pragma_update(None, "synchronous", "full")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    // A full disk must not break reading.
    conn.pragma_update(None, "temp_store", "memory")?;
    conn.pragma_update(None, "cache_size", -16_384)?;
    Ok(())
}

/// The file's schema, if it is ours and not newer.
fn refuse_foreign(conn: &Connection, path: &Path) -> Result<i64, Fault> {
    let found = schema::version(conn)?;
    let application: i64 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let n_tables: i64 =
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if n_tables > 0 && application != schema::APPLICATION_ID {
        let detail = "it is a database of another program".to_owned();
        return Err(Error::Corrupt {
            path: path.to_owned(),
            detail,
        }
        .into());
    }
    if found > schema::VERSION {
        return Err(Error::NewerSchema {
            path: path.to_owned(),
            found,
            supported: schema::VERSION,
        }
        .into());
    }
    Ok(found)
}

/// That the file has exactly the schema of this program.
fn check_schema(conn: &Connection, path: &Path) -> Result<(), Fault> {
    let found = refuse_foreign(conn, path)?;
    if found < schema::VERSION {
        return Err(Error::OlderSchemaReadOnly {
            path: path.to_owned(),
            found,
            supported: schema::VERSION,
        }
        .into());
    }
    Ok(())
}

/// Refuses what SQLite would only find damaged at the first read of a lost page.
fn refuse_damaged(path: &Path) -> Result<()> {
    let mut damage = damage(path);
    // A process that is just closing its log changes file and log one after the other.
    for _ in 0..3 {
        if damage.is_some() {
            std::thread::sleep(Duration::from_millis(20));
            damage = self::damage(path);
        }
    }
    match damage {
        Some(detail) => Err(Error::Corrupt {
            path: path.to_owned(),
            detail,
        }),
        None => Ok(()),
    }
}

fn damage(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut header = [0; 100];
    let whole_header = file.read_exact(&mut header).is_ok();
    let n_bytes = file.metadata().ok()?.len();
    let log_is_empty = fs::metadata(log_path(path)).map_or(true, |log| log.len() == 0);
    // A process killed while making the file leaves an empty one, which is as good as none;
    // and with a log beside it, the file is not the whole store.
    if n_bytes == 0 || !log_is_empty {
        return None;
    }
    if !whole_header {
        return Some(format!("it has only {n_bytes} bytes"));
    }
    if !header.starts_with(MAGIC) {
        return Some("it is not an SQLite file".to_owned());
    }
    // Offsets from section 1.3 of SQLite's file format: page size at 16 (1 means 65536), the
    // change counter at 24, the size in pages at 28, and at 92 the counter for which that size
    // holds.
    let u32_at = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let page_size = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65536,
        size => u64::from(size),
    };
    let expected = u64::from(u32_at(28)) * page_size;
    (u32_at(24) == u32_at(92) && n_bytes < expected)
        .then(|| format!("it is cut short: {n_bytes} of {expected} bytes"))
}

fn cannot_open(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
}

fn is_readonly(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied)
    )
}

/// `path` as SQLite reads it in a `file:` address.
fn uri(path: &Path) -> String {
    let text = path.to_string_lossy();
    let mut uri = String::from("file:");
    for c in text.chars() {
        match c {
            '?' => uri.push_str("%3f"),
            '#' => uri.push_str("%23"),
            '%' => uri.push_str("%25"),
            c => uri.push(c),
        }
    }
    uri
}
