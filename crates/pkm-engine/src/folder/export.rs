//! Writes notes to a folder that imports back to the same notes.
//!
//! A note's file is its content, byte for byte. Where the content has no front matter of its own
//! and title or tags would be lost, a generated block is put before it, so that other tools see
//! them; a [sidecar](super::sidecar) says how long that block is, and keeps what a file cannot say.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use jiff::Timestamp;

use super::names::{Names, safe_file_name};
use super::sidecar::{FILE_NAME, Header, Record, Sidecar, VERSION};
use super::{EXTENSIONS, FolderError};
use crate::markdown::{FrontMatter, split_front_matter, title_of};

/// A note to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoteFile<'a> {
    /// Its title.
    pub(crate) title: &'a str,
    /// Its content, front matter included.
    pub(crate) content: &'a str,
    /// Its tags.
    pub(crate) tags: &'a [String],
    /// Its folder, with `/`; empty for the root.
    pub(crate) folder: &'a str,
    /// When it was made.
    pub(crate) created_at: Timestamp,
    /// When it was last changed; the file gets this time.
    pub(crate) updated_at: Timestamp,
    /// The path that it was imported from: its file keeps that name, in the note's folder.
    pub(crate) preferred_path: Option<&'a str>,
}

/// Which folders an export goes to. Files that are not of an export are never overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// One that is not there or holds nothing but hidden files.
    Empty,
    /// That, or one that a former export wrote, which is brought up to date.
    FormerExport,
    /// Any: notes come to stand beside the files that are there.
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "no command asks for it yet; the rules for it are tested"
        )
    )]
    Any,
}

/// What an export did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Exported {
    /// Notes in the folder now.
    pub(crate) n_written: usize,
    /// Files of a former export whose notes are gone, removed.
    pub(crate) n_removed: usize,
    /// Files of a former export that were edited since and stay, by path.
    pub(crate) kept: Vec<String>,
}

/// An export at work.
#[derive(Debug)]
pub(crate) struct Exporter {
    root: PathBuf,
    former: Sidecar,
    names: Names,
    /// Where each folder of notes is written.
    folders: HashMap<String, String>,
    written: Vec<Record>,
    /// The sidecar, open at its end: each file is listed when it is written, so that a killed
    /// export can be taken up.
    list: File,
}

impl Exporter {
    /// Begins an export to `root`, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// [`FolderError`] of kind `DirectoryNotEmpty` when `root` is not what `destination` allows,
    /// and for what the file system refuses.
    pub(crate) fn create(root: &Path, destination: Destination) -> Result<Exporter, FolderError> {
        fs::create_dir_all(root).map_err(failed("making", root))?;
        let root = root.canonicalize().map_err(failed("opening", root))?;
        let former = Sidecar::read(&root)?;
        let allowed = match destination {
            Destination::Any => true,
            Destination::FormerExport => former.is_present() || is_empty(&root)?,
            Destination::Empty => !former.is_present() && is_empty(&root)?,
        };
        if !allowed {
            let reason = if former.is_present() {
                "it holds a former export"
            } else {
                "it holds files that no export wrote"
            };
            return Err(FolderError {
                doing: "exporting to",
                path: root,
                source: io::Error::new(io::ErrorKind::DirectoryNotEmpty, reason),
            });
        }
        let path = root.join(FILE_NAME);
        let list = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(failed("writing", &path))?;
        let mut exporter = Exporter {
            root,
            former,
            names: Names::default(),
            folders: HashMap::from([(String::new(), String::new())]),
            written: Vec::new(),
            list,
        };
        if exporter.former.is_present() {
            // Ends a line that a kill cut short; an empty line is none.
            exporter.list_line("")?;
        } else {
            exporter.list.set_len(0).map_err(failed("writing", &path))?;
            exporter.list_line(&to_json(&Header {
                pkm_export: VERSION,
            }))?;
        }
        Ok(exporter)
    }

    /// Writes one note; gives its path below the root.
    ///
    /// # Errors
    ///
    /// [`FolderError`] for what the file system refuses. The file is there whole or not at all.
    pub(crate) fn write(&mut self, note: &NoteFile<'_>) -> Result<String, FolderError> {
        let folder = self.folder(note.folder)?;
        let (stem, ending) = file_name(note);
        let path = {
            let (root, former) = (&self.root, &self.former);
            self.names
                .take(&folder, &stem, &ending, |path| is_free(root, former, path))
        };
        // The number that a name may have got counts: the title may come from the name.
        let stem = Path::new(&path)
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());

        let own = split_front_matter(note.content);
        let derived_title = title_of(&own, note.content, &stem);
        let has_own = !own.range.is_empty() || own.problem.is_some();
        let generated = if !has_own && (!note.tags.is_empty() || derived_title != note.title) {
            generate(note)
        } else {
            String::new()
        };
        let text = generated + note.content;
        let n_generated = text.len() - note.content.len();
        let (derived_title, derived_tags) = if n_generated == 0 {
            (derived_title, own.tags)
        } else {
            let block = split_front_matter(&text);
            (title_of(&block, &text, &stem), block.tags)
        };
        let record = Record {
            path: path.clone(),
            title: note.title.to_owned(),
            tags: note.tags.to_vec(),
            folder: note.folder.to_owned(),
            created_at: note.created_at,
            updated_at: note.updated_at,
            derived_title: Some(derived_title).filter(|title| title != note.title),
            derived_tags: Some(derived_tags).filter(|tags| tags != note.tags),
            n_generated,
            blake3: blake3::hash(text.as_bytes()).to_hex().to_string(),
        };

        let file = self.root.join(&path);
        let is_same = self
            .former
            .at_path(&path)
            .is_some_and(|former| former.blake3 == record.blake3);
        if !is_same || !file.exists() {
            write_whole(&file, text.as_bytes())?;
        }
        set_time(&file, note.updated_at);
        self.list_line(&to_json(&record))?;
        self.written.push(record);
        Ok(path)
    }

    /// Removes the files of notes that are gone since a former export, and lists what is there.
    ///
    /// # Errors
    ///
    /// [`FolderError`] for what the file system refuses.
    pub(crate) fn finish(self) -> Result<Exported, FolderError> {
        let mut exported = Exported {
            n_written: self.written.len(),
            ..Exported::default()
        };
        let written: HashSet<&str> = self.written.iter().map(|r| r.path.as_str()).collect();
        for record in self
            .former
            .records()
            .filter(|r| !written.contains(r.path.as_str()))
        {
            let file = self.root.join(&record.path);
            match fs::read(&file) {
                Ok(bytes) if record.is_of(blake3::hash(&bytes).as_bytes()) && self.holds(&file) => {
                    fs::remove_file(&file).map_err(failed("removing", &file))?;
                    self.remove_empty_folders(&file);
                    exported.n_removed += 1;
                }
                Ok(_) => exported.kept.push(record.path.clone()),
                Err(_) => {}
            }
        }
        exported.kept.sort_unstable();
        let mut list = to_json(&Header {
            pkm_export: VERSION,
        });
        list.push('\n');
        for record in &self.written {
            list.push_str(&to_json(record));
            list.push('\n');
        }
        write_whole(&self.root.join(FILE_NAME), list.as_bytes())?;
        Ok(exported)
    }

    /// The folder below the root that stands for a note's `folder`.
    fn folder(&mut self, folder: &str) -> Result<String, FolderError> {
        if let Some(known) = self.folders.get(folder) {
            return Ok(known.clone());
        }
        let (parent, name) = folder.rsplit_once('/').unwrap_or(("", folder));
        let parent = self.folder(parent)?;
        let root = &self.root;
        let path = self.names.take(&parent, &safe_file_name(name), "", |path| {
            // A link may lead anywhere, and an import does not follow it.
            fs::symlink_metadata(root.join(path)).is_ok_and(|there| there.is_dir())
                || !exists(&root.join(path))
        });
        let made = self.root.join(&path);
        fs::create_dir_all(&made).map_err(failed("making", &made))?;
        self.folders.insert(folder.to_owned(), path.clone());
        Ok(path)
    }

    /// Whether `file` is below the root when all links are followed.
    fn holds(&self, file: &Path) -> bool {
        file.canonicalize()
            .is_ok_and(|real| real.starts_with(&self.root))
    }

    fn remove_empty_folders(&self, file: &Path) {
        let mut folder = file.parent();
        while let Some(path) = folder.filter(|path| *path != self.root) {
            // Fails where something is left in it, which ends this.
            if fs::remove_dir(path).is_err() {
                break;
            }
            folder = path.parent();
        }
    }

    fn list_line(&mut self, line: &str) -> Result<(), FolderError> {
        self.list
            .write_all(format!("{line}\n").as_bytes())
            .map_err(failed("writing", &self.root.join(FILE_NAME)))
    }
}

/// What of an exported and since edited file's `content` is the note's: without the generated
/// block, unless somebody made it their own by adding keys; `None` when all of it is.
pub(super) fn without_generated<'a>(
    content: &'a str,
    front_matter: &FrontMatter,
    record: &Record,
) -> Option<&'a str> {
    let is_ours = record.n_generated > 0
        && !front_matter.range.is_empty()
        && front_matter.problem.is_none()
        && front_matter
            .keys
            .iter()
            .all(|key| KEYS.contains(&key.as_str()));
    is_ours.then(|| {
        let rest = &content[front_matter.range.end..];
        rest.strip_prefix("\r\n")
            .or_else(|| rest.strip_prefix('\n'))
            .unwrap_or(rest)
    })
}

/// The keys of a generated block.
const KEYS: [&str; 4] = ["title", "tags", "created", "updated"];

/// A front matter block for a note, and the blank line after it.
fn generate(note: &NoteFile<'_>) -> String {
    let mut block = format!("---\ntitle: {}\n", yaml_string(note.title));
    if !note.tags.is_empty() {
        block.push_str("tags:\n");
        for tag in note.tags {
            block.push_str(&format!("  - {}\n", yaml_string(tag)));
        }
    }
    block.push_str(&format!(
        "created: {}\nupdated: {}\n---\n\n",
        note.created_at, note.updated_at
    ));
    block
}

/// `text` as a double-quoted YAML scalar. Everything that YAML does not call printable is escaped
/// (YAML 1.2.2, section 5.1), and so is the line.
fn yaml_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~'
            | '\u{A0}'..='\u{2027}'
            | '\u{202A}'..='\u{D7FF}'
            | '\u{E000}'..='\u{FEFE}'
            | '\u{FF00}'..='\u{FFFD}'
            | '\u{1_0000}'.. => quoted.push(c),
            _ => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

/// The stem and the ending, with its point, that a note's file should have.
fn file_name(note: &NoteFile<'_>) -> (String, String) {
    let preferred = note
        .preferred_path
        .and_then(|path| path.rsplit('/').next())
        .and_then(|name| name.rsplit_once('.'))
        .filter(|(_, ending)| EXTENSIONS.contains(&ending.to_ascii_lowercase().as_str()));
    match preferred {
        Some((stem, ending)) => (safe_file_name(stem), format!(".{ending}")),
        None => (safe_file_name(note.title), ".md".to_owned()),
    }
}

/// Whether a note may be written to `path`: nothing is there, or what a former export wrote.
fn is_free(root: &Path, former: &Sidecar, path: &str) -> bool {
    let file = root.join(path);
    match fs::symlink_metadata(&file) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(there) if there.is_file() => former.at_path(path).is_some_and(|record| {
            fs::read(&file).is_ok_and(|bytes| record.is_of(blake3::hash(&bytes).as_bytes()))
        }),
        Ok(_) => false,
    }
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn is_empty(folder: &Path) -> Result<bool, FolderError> {
    for entry in folder.read_dir().map_err(failed("reading", folder))? {
        let entry = entry.map_err(failed("reading", folder))?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes `bytes` to a file beside `path` and gives it that name: a reader sees the old file or
/// the new one.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    static N_WRITTEN: AtomicU64 = AtomicU64::new(0);
    let n = N_WRITTEN.fetch_add(1, Ordering::Relaxed);
    let folder = path.parent().unwrap_or(path);
    let temporary = folder.join(format!(".pkm-export-{}-{n}.tmp", std::process::id()));
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(failed("writing", path))
}

fn set_time(file: &Path, time: Timestamp) {
    let Ok(time) = SystemTime::try_from(time) else {
        return;
    };
    let set = OpenOptions::new()
        .write(true)
        .open(file)
        .and_then(|file| file.set_modified(time));
    if let Err(error) = set {
        // Only a tool that knows nothing of the sidecar would have used it.
        tracing::debug!(path = %file.display(), %error, "the file's time is left as it is");
    }
}

fn to_json(line: &impl serde::Serialize) -> String {
    serde_json::to_string(line).expect("records have text keys and no maps that could fail")
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError {
        doing,
        path,
        source,
    }
}

#[cfg(test)]
mod tests;
