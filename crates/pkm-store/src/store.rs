//! The store itself: one file, one writer, many readers.

use std::path::{Path, PathBuf};

use crate::Result;

/// Notes in one folder. Cheap to share between threads; other processes may have the same
/// folder open.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
}

/// Whether a store can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It can.
    ReadWrite,
    /// The folder or the file does not permit it.
    ReadOnly,
}

impl Store {
    /// Opens the notes in `dir`, making the folder and the file if need be, and brings the
    /// file's schema up to date. A folder that cannot be written is opened for reading.
    ///
    /// # Errors
    ///
    /// [`Error::NewerSchema`](crate::Error::NewerSchema),
    /// [`Error::Corrupt`](crate::Error::Corrupt), [`Error::Open`](crate::Error::Open).
    pub fn open(dir: &Path) -> Result<Self> {
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether it can be changed.
    pub fn access(&self) -> Access {
        Access::ReadWrite
    }

    /// Size of the file and its log.
    pub fn size_bytes(&self) -> u64 {
        0
    }

    /// The schema of the file.
    pub fn schema_version(&self) -> i64 {
        1
    }
}
