//! What an export notes about its files, so that they import as the notes they were.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Component, Path};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::FolderError;

/// The file's name, in the exported folder.
pub(super) const FILE_NAME: &str = ".pkm-export.jsonl";

/// First line of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    /// The version of the format; another one is not read.
    pub(super) pkm_export: u32,
}

/// The version that is written.
pub(super) const VERSION: u32 = 1;

/// A line of the file: one exported note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The file, below the folder, with `/`.
    pub(super) path: String,
    pub(super) title: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<String>,
    #[serde(default)]
    pub(super) folder: String,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    /// The title that the file alone gives, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) derived_title: Option<String>,
    /// The tags that the file alone gives, where those are others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) derived_tags: Option<Vec<String>>,
    /// Bytes at the file's start that are not of the note.
    #[serde(default)]
    pub(super) n_generated: usize,
    /// BLAKE3 of the file, in hexadecimal digits.
    pub(super) blake3: String,
}

impl Record {
    /// Whether the file whose bytes have this `hash` is the one that was written.
    pub(super) fn is_of(&self, hash: &[u8; 32]) -> bool {
        self.blake3 == blake3::Hash::from_bytes(*hash).to_hex().as_str()
    }

    /// The title of an edited file that says `now`: the note's, unless the edit changed it.
    pub(super) fn title_after_edit(&self, now: String) -> String {
        match &self.derived_title {
            Some(derived) if *derived == now => self.title.clone(),
            _ => now,
        }
    }

    /// The tags of an edited file that says `now`, by the same rule.
    pub(super) fn tags_after_edit(&self, now: Vec<String>) -> Vec<String> {
        match &self.derived_tags {
            Some(derived) if *derived == now => self.tags.clone(),
            _ => now,
        }
    }

    /// Whether the path is below the folder: one that is not would be another's file.
    fn is_inside(&self) -> bool {
        !self.path.is_empty()
            && Path::new(&self.path)
                .components()
                .all(|part| matches!(part, Component::Normal(_)))
    }
}

/// The records of a folder; none where no export was made.
#[derive(Debug, Default)]
pub(super) struct Sidecar {
    records: Vec<Record>,
    by_path: HashMap<String, usize>,
    by_hash: HashMap<String, usize>,
    is_present: bool,
}

impl Sidecar {
    /// Reads the sidecar of `root`, if there is one. Of two records of one path the last counts,
    /// and lines that are not records (the last one after a kill) do not.
    pub(super) fn read(root: &Path) -> Result<Sidecar, FolderError> {
        let path = root.join(FILE_NAME);
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Sidecar::default()),
            Err(source) => {
                return Err(FolderError {
                    doing: "reading",
                    path,
                    source,
                });
            }
        };
        let mut lines = text.lines();
        let header = lines
            .next()
            .and_then(|line| serde_json::from_str::<Header>(line).ok());
        let mut sidecar = Sidecar::default();
        if header.is_none_or(|header| header.pkm_export != VERSION) {
            tracing::warn!(path = %path.display(), "the list of an export is not readable and is left aside");
            return Ok(sidecar);
        }
        sidecar.is_present = true;
        for line in lines.filter(|line| !line.is_empty()) {
            match serde_json::from_str::<Record>(line) {
                Ok(record) if record.is_inside() => sidecar.add(record),
                _ => {
                    tracing::warn!(path = %path.display(), "a line of the list of an export is not readable")
                }
            }
        }
        Ok(sidecar)
    }

    /// Whether an export was made into the folder.
    pub(super) fn is_present(&self) -> bool {
        self.is_present
    }

    /// The record of the file at `path`.
    pub(super) fn at_path(&self, path: &str) -> Option<&Record> {
        self.by_path.get(path).map(|&at| &self.records[at])
    }

    /// A record of a file with these bytes, wherever it was: files are moved.
    pub(super) fn with_hash(&self, hash: &[u8; 32]) -> Option<&Record> {
        let digits = blake3::Hash::from_bytes(*hash).to_hex();
        self.by_hash
            .get(digits.as_str())
            .map(|&at| &self.records[at])
    }

    /// The records in force.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.by_path.values().map(|&at| &self.records[at])
    }

    fn add(&mut self, record: Record) {
        let at = self.records.len();
        self.by_path.insert(record.path.clone(), at);
        self.by_hash.insert(record.blake3.clone(), at);
        self.records.push(record);
    }
}
