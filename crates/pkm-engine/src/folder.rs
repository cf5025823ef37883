//! Reads a Markdown folder for import and writes one for export.

mod export;
mod names;
mod sidecar;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use jiff::Timestamp;
use thiserror::Error;
use unicode_normalization::UnicodeNormalization;

use crate::decode::decode;
use crate::markdown::{FrontMatter, split_front_matter, title_of};

pub(crate) use export::{Destination, Exporter, NoteFile};

use sidecar::{Record, Sidecar};

/// A larger file is not a note: it is reported and left out. Files of an export have no such limit.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Endings of the files that are read, in lower case.
const EXTENSIONS: [&str; 3] = ["md", "markdown", "txt"];

/// A folder, or a file in it, cannot be read or written.
#[derive(Debug, Error)]
#[error("{doing} `{}` failed", path.display())]
pub(crate) struct FolderError {
    /// Such as `reading`.
    pub(crate) doing: &'static str,
    /// The folder or file.
    pub(crate) path: PathBuf,
    /// The reason.
    #[source]
    pub(crate) source: io::Error,
}

/// One file of the folder, or a part of it that cannot be read.
#[derive(Debug)]
pub(crate) struct FolderEntry {
    /// Below the root, with `/`, composed (NFC) unless another file has that name.
    pub(crate) path: String,
    /// The note, or why there is none.
    pub(crate) result: Result<FileNote, FileProblem>,
}

/// A note as a file holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileNote {
    /// From the front matter, the first heading, or the file's name; not blank, on one line.
    pub(crate) title: String,
    /// The file's text, front matter included, what an export put before it left out.
    pub(crate) content: String,
    /// From the front matter.
    pub(crate) tags: Vec<String>,
    /// The folder below the root, with `/`; empty for the root.
    pub(crate) folder: String,
    /// From the front matter, else the earlier of `updated_at` and the file's time.
    pub(crate) created_at: Timestamp,
    /// From the front matter, else the file's time.
    pub(crate) updated_at: Timestamp,
    /// Hash of the file's bytes: equal while the file is unchanged.
    pub(crate) hash: [u8; 32],
    /// What the file was decoded from.
    pub(crate) encoding: &'static str,
    /// Whether bytes were lost in that.
    pub(crate) lossy: bool,
    /// What is wrong with the front matter.
    pub(crate) problem: Option<String>,
}

/// Why a file, or all that a subfolder holds, is left out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub(crate) struct FileProblem {
    /// The reason, for a person.
    pub(crate) reason: String,
    /// What cannot be read.
    pub(crate) scope: ProblemScope,
}

/// What a problem is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemScope {
    /// This file alone.
    File,
    /// Everything below this path: what was there may still be there.
    Folder,
}

/// A folder whose files are listed, and read one by one.
#[derive(Debug)]
pub(crate) struct MarkdownFolder {
    root: PathBuf,
    listed: std::vec::IntoIter<Listed>,
    sidecar: Sidecar,
}

#[derive(Debug)]
struct Listed {
    path: String,
    found: Result<PathBuf, FileProblem>,
}

/// Lists the Markdown and text files below `root`, by path: what `.gitignore` and `.ignore` files
/// in it exclude, hidden files and folders (`.obsidian`, `.git`) and links are left out.
///
/// # Errors
///
/// [`FolderError`] naming `root` when it is not there, is not a folder, or cannot be listed. That
/// is never an empty folder: a caller that removes notes must not do so on an error.
pub(crate) fn read_folder(root: &Path) -> Result<MarkdownFolder, FolderError> {
    let failed = |source| FolderError {
        doing: "reading",
        path: root.to_owned(),
        source,
    };
    let root = root.canonicalize().map_err(failed)?;
    root.read_dir().map_err(failed)?;

    let mut listed = Vec::new();
    let walk = WalkBuilder::new(&root)
        .follow_links(false)
        // What stands above the folder is not the folder's matter.
        .parents(false)
        .git_global(false)
        .git_exclude(false)
        .require_git(false)
        .build();
    for entry in walk {
        match entry {
            Ok(entry) => {
                let kind = entry.file_type();
                if kind.is_some_and(|kind| kind.is_dir()) || !has_note_extension(entry.path()) {
                    continue;
                }
                let found = match kind {
                    Some(kind) if kind.is_file() => Ok(entry.path().to_owned()),
                    Some(kind) if kind.is_symlink() => Err("is a link; links are not followed"),
                    _ => Err("is not a regular file"),
                };
                listed.push(Listed {
                    path: relative(&root, entry.path()),
                    found: found.map_err(|reason| FileProblem {
                        reason: reason.to_owned(),
                        scope: ProblemScope::File,
                    }),
                });
            }
            Err(error) => {
                let path = path_of(&error).map(Path::to_owned);
                match path {
                    Some(path) if path != root => listed.push(Listed {
                        path: relative(&root, &path),
                        found: Err(FileProblem {
                            reason: format!("cannot be read: {error}"),
                            scope: ProblemScope::Folder,
                        }),
                    }),
                    _ => {
                        let source = error
                            .into_io_error()
                            .unwrap_or_else(|| io::Error::other("the folder cannot be listed"));
                        return Err(failed(source));
                    }
                }
            }
        }
    }
    listed.sort_by(|a, b| a.path.cmp(&b.path));
    compose_paths(&mut listed);
    let sidecar = Sidecar::read(&root)?;
    Ok(MarkdownFolder {
        root,
        listed: listed.into_iter(),
        sidecar,
    })
}

impl MarkdownFolder {
    /// The folder, absolute and without links.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// How many entries are still to come.
    pub(crate) fn n_files(&self) -> usize {
        self.listed.len()
    }
}

impl Iterator for MarkdownFolder {
    type Item = FolderEntry;

    fn next(&mut self) -> Option<FolderEntry> {
        let Listed { path, found } = self.listed.next()?;
        let result = found.and_then(|file| {
            read_note(&file, &path, &self.sidecar).map_err(|reason| FileProblem {
                reason,
                scope: ProblemScope::File,
            })
        });
        Some(FolderEntry { path, result })
    }
}

fn read_note(file: &Path, path: &str, sidecar: &Sidecar) -> Result<FileNote, String> {
    let failed = |error: io::Error| format!("cannot be read: {error}");
    let opened = File::open(file).map_err(failed)?;
    let metadata = opened.metadata().map_err(failed)?;
    let at_path = sidecar.at_path(path);
    if at_path.is_none() && metadata.len() > MAX_FILE_BYTES {
        return Err(format!(
            "has {} bytes; the most that is read is {MAX_FILE_BYTES}",
            metadata.len()
        ));
    }
    let mut bytes = Vec::new();
    // The length may have changed since; the listed one is the limit all the same.
    opened
        .take(metadata.len())
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let modified = metadata
        .modified()
        .ok()
        .and_then(|time| Timestamp::try_from(time).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH);
    let hash: [u8; 32] = blake3::hash(&bytes).into();
    let source = FileSource {
        path,
        stem: file.file_stem().map(readable_name).unwrap_or_default(),
        modified,
        hash,
    };

    let unchanged = at_path
        .filter(|record| record.is_of(&hash))
        .or_else(|| sidecar.with_hash(&hash));
    match (unchanged, at_path) {
        (Some(record), _) => match source.as_exported(&bytes, record) {
            Some(note) => Ok(note),
            None => source.note_from(&bytes, None),
        },
        (None, record) => source.note_from(&bytes, record),
    }
}

/// What is known of a file besides its text.
struct FileSource<'a> {
    path: &'a str,
    stem: String,
    modified: Timestamp,
    hash: [u8; 32],
}

impl FileSource<'_> {
    /// The note that an export wrote, from a file that is as it was written.
    fn as_exported(&self, bytes: &[u8], record: &Record) -> Option<FileNote> {
        let content = std::str::from_utf8(bytes).ok()?.get(record.n_generated..)?;
        Some(FileNote {
            title: record.title.clone(),
            content: content.to_owned(),
            tags: record.tags.clone(),
            folder: self.folder(Some(record)),
            created_at: record.created_at,
            updated_at: record.updated_at,
            hash: self.hash,
            encoding: "UTF-8",
            lossy: false,
            problem: None,
        })
    }

    /// The note that any file holds; `record` is of an export whose file was edited since.
    fn note_from(&self, bytes: &[u8], record: Option<&Record>) -> Result<FileNote, String> {
        let decoded = decode(bytes).map_err(|error| error.to_string())?;
        let mut content = decoded.text;
        let front_matter = split_front_matter(&content);
        let mut title = title_of(&front_matter, &content, &self.stem);
        if let Some(record) = record {
            title = record.title_after_edit(title);
            if let Some(own) = export::without_generated(&content, &front_matter, record) {
                content = own.to_owned();
            }
        }
        if title.is_empty() {
            "Untitled".clone_into(&mut title);
        }
        let updated_at = front_matter
            .updated
            // What an export wrote there is older than the edit.
            .filter(|updated| record.is_none_or(|record| record.updated_at != *updated))
            .unwrap_or(self.modified);
        let created_at = front_matter
            .created
            .or(record.map(|record| record.created_at))
            .unwrap_or(updated_at.min(self.modified));
        let FrontMatter { tags, problem, .. } = front_matter;
        Ok(FileNote {
            title,
            content,
            tags: record.map_or_else(
                || tags.clone(),
                |record| record.tags_after_edit(tags.clone()),
            ),
            folder: self.folder(record),
            created_at,
            updated_at,
            hash: self.hash,
            encoding: decoded.encoding,
            lossy: decoded.lossy,
            problem,
        })
    }

    /// The folder's name as the note has it, while the file is in the folder it was exported to.
    fn folder(&self, record: Option<&Record>) -> String {
        match record {
            Some(record) if parent(&record.path) == parent(self.path) => record.folder.clone(),
            _ => parent(self.path).nfc().collect(),
        }
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn has_note_extension(path: &Path) -> bool {
    path.extension()
        .and_then(OsStr::to_str)
        .is_some_and(|extension| EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str()))
}

/// `path` below `root`, with `/`, as it is spelled on the disk.
fn relative(root: &Path, path: &Path) -> String {
    let parts: Vec<String> = path
        .strip_prefix(root)
        .unwrap_or(path)
        .components()
        .map(|part| readable_name(part.as_os_str()))
        .collect();
    parts.join("/")
}

/// Composes every path, but for those that would then be the same as another's.
fn compose_paths(listed: &mut [Listed]) {
    let mut taken: HashSet<String> = listed.iter().map(|entry| entry.path.clone()).collect();
    for entry in listed {
        let composed: String = entry.path.nfc().collect();
        if composed != entry.path && taken.insert(composed.clone()) {
            entry.path = composed;
        }
    }
}

/// A file name as text. Names that are not Unicode come from old Korean archives, among others.
fn readable_name(name: &OsStr) -> String {
    match name.to_str() {
        Some(name) => name.to_owned(),
        None => decode(name.as_encoded_bytes()).map_or_else(
            |_| name.to_string_lossy().into_owned(),
            |decoded| decoded.text,
        ),
    }
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            path_of(err)
        }
        ignore::Error::Loop { child, .. } => Some(child),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
