//! Notes in from a Markdown folder, and out to one.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::PathBuf;

use jiff::Timestamp;
use pkm_store::{Edit, Filter, NewNote, NoteState, Sort, Source, SourceEntry};

use crate::check::{MAX_TITLE_CHARS, checked_content, checked_folder, checked_tags};
use crate::folder::{
    Destination, Exporter, FileNote, FolderError, NoteFile, ProblemScope, read_folder,
};
use crate::{Engine, Error};

/// Notes listed at a time for an export.
const PAGE: usize = 200;

/// Which folder to import, and how.
#[derive(Debug, Clone)]
pub struct ImportRequest {
    /// The folder of Markdown files.
    pub root: PathBuf,
    /// The notes' folder begins with this; empty for the root.
    pub into: String,
    /// What to do with notes whose file is gone.
    pub prune: Prune,
    /// Whether to change anything.
    pub dry_run: DryRun,
}

/// What an import does with notes that came from a file which is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prune {
    /// They stay.
    Keep,
    /// They go to the trash.
    Remove,
}

/// Whether an import changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRun {
    /// It does.
    No,
    /// It only says what it would do.
    Yes,
}

/// How far an import or export is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferProgress {
    /// Files done.
    pub done: usize,
    /// Files in all.
    pub total: usize,
    /// The file at hand, from the folder's root.
    pub path: String,
}

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Notes that are new.
    pub n_added: usize,
    /// Notes whose file had changed.
    pub n_updated: usize,
    /// Notes whose file had not.
    pub n_unchanged: usize,
    /// Notes that went to the trash because their file is gone.
    pub n_removed: usize,
    /// Files that were not UTF-8: path and encoding.
    pub decoded: Vec<(String, String)>,
    /// Files that were left out: path and reason.
    pub skipped: Vec<(String, String)>,
    /// Files that were read, with something to look at: path and what.
    pub warnings: Vec<(String, String)>,
}

/// Where to export to.
#[derive(Debug, Clone)]
pub struct ExportRequest {
    /// The folder; it is made when it is not there.
    pub to: PathBuf,
    /// What to do when it holds files.
    pub overwrite: Overwrite,
}

/// Whether an export may write into a folder that holds files. Files that come from no export are
/// never overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    /// It may not.
    Refuse,
    /// It may when they come from an export, which is brought up to date.
    FormerExport,
}

/// What an export did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Notes in the folder now.
    pub n_written: usize,
    /// Files of a former export that went because their notes are gone.
    pub n_removed: usize,
    /// Files of a former export that were edited since and stay: paths.
    pub kept: Vec<String>,
}

/// An import at work.
struct Import<'a> {
    engine: &'a Engine,
    dry_run: DryRun,
    into: String,
    root: String,
    /// Live notes by the path that they came from.
    known: HashMap<String, SourceEntry>,
    /// The same of notes that a person deleted.
    deleted: HashMap<String, [u8; 32]>,
    report: ImportReport,
}

impl Engine {
    /// Imports a folder of Markdown files. What was imported before and has not changed since costs
    /// a read; a file that cannot be read is skipped and reported. A note that was deleted here does
    /// not come back while its file is unchanged. When `progress` breaks, what was imported so far
    /// stays.
    ///
    /// # Errors
    ///
    /// [`Error::Folder`] when the folder itself cannot be read: nothing is changed then.
    /// [`Error::Invalid`] when notes are to be removed and the folder holds none at all.
    /// [`Error::Cancelled`] when `progress` breaks.
    pub fn import_folder(
        &self,
        request: &ImportRequest,
        progress: &mut dyn FnMut(&TransferProgress) -> ControlFlow<()>,
    ) -> Result<ImportReport, Error> {
        let folder = read_folder(&request.root)?;
        let root = folder.root().to_string_lossy().into_owned();
        let mut import = Import {
            engine: self,
            dry_run: request.dry_run,
            into: checked_folder(&request.into)?,
            known: self
                .store()
                .sources(&root)?
                .into_iter()
                .map(|source| (source.path.clone(), source))
                .collect(),
            deleted: self.deleted_sources(&root)?,
            root,
            report: ImportReport::default(),
        };
        let total = folder.n_files();
        if request.prune == Prune::Remove && total == 0 && !import.known.is_empty() {
            return Err(Error::invalid(
                "prune",
                format!(
                    "would remove every note of `{}`, which holds no file at all; \
                     is it mounted? Delete the notes one by one if that is what you want",
                    import.root
                ),
            ));
        }
        let mut present = HashSet::new();
        let mut unreadable = Vec::new();
        for (done, entry) in folder.enumerate() {
            let at = TransferProgress {
                done,
                total,
                path: entry.path.clone(),
            };
            if progress(&at).is_break() {
                return Err(Error::Cancelled);
            }
            match entry.result {
                Ok(file) => import.take(&entry.path, &file)?,
                Err(problem) => {
                    if problem.scope == ProblemScope::Folder {
                        unreadable.push(format!("{}/", entry.path));
                    }
                    import
                        .report
                        .skipped
                        .push((entry.path.clone(), problem.reason));
                }
            }
            present.insert(entry.path);
        }
        if request.prune == Prune::Remove {
            import.prune(|path| {
                present.contains(path) || unreadable.iter().any(|folder| path.starts_with(folder))
            })?;
        }
        self.wake_worker();
        Ok(import.report)
    }

    /// Writes every note to a folder, so that importing it gives the same notes.
    ///
    /// # Errors
    ///
    /// [`Error::Folder`] when the folder cannot be written, or holds files and may not be
    /// overwritten. [`Error::Cancelled`] when `progress` breaks.
    pub fn export_folder(
        &self,
        request: &ExportRequest,
        progress: &mut dyn FnMut(&TransferProgress) -> ControlFlow<()>,
    ) -> Result<ExportReport, Error> {
        let destination = match request.overwrite {
            Overwrite::Refuse => Destination::Empty,
            Overwrite::FormerExport => Destination::FormerExport,
        };
        let mut exporter = Exporter::create(&request.to, destination)?;
        let (mut done, mut after) = (0, None);
        loop {
            let page =
                self.store()
                    .list_notes(&Filter::default(), Sort::Created, PAGE, after.as_ref())?;
            for summary in page.notes {
                // Deleted since it was listed: then it is no part of the export.
                let note = match self.store().get_note(summary.id) {
                    Err(pkm_store::Error::NotFound { .. } | pkm_store::Error::Trashed { .. }) => {
                        continue;
                    }
                    note => note?,
                };
                let path = exporter.write(&NoteFile {
                    title: &note.title,
                    content: &note.content,
                    tags: &note.tags,
                    folder: &note.folder,
                    created_at: note.created_at,
                    updated_at: note.updated_at,
                    preferred_path: note.source.as_ref().map(|source| source.path.as_str()),
                })?;
                done += 1;
                let at = TransferProgress {
                    done,
                    total: page.total.max(done),
                    path,
                };
                if progress(&at).is_break() {
                    return Err(Error::Cancelled);
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let exported = exporter.finish()?;
        Ok(ExportReport {
            n_written: exported.n_written,
            n_removed: exported.n_removed,
            kept: exported.kept,
        })
    }

    /// Path and hash of the files below `root` whose notes are in the trash.
    fn deleted_sources(&self, root: &str) -> Result<HashMap<String, [u8; 32]>, Error> {
        let mut deleted = HashMap::new();
        for summary in self.store().list_trash(usize::MAX)? {
            let trashed = self.store().trashed_note(summary.note.id)?;
            if let Some(source) = trashed.and_then(|trashed| trashed.note.source)
                && source.root == root
            {
                deleted.insert(source.path, source.hash);
            }
        }
        Ok(deleted)
    }
}

impl Import<'_> {
    fn take(&mut self, path: &str, file: &FileNote) -> Result<(), Error> {
        let mut warn = |what: String| self.report.warnings.push((path.to_owned(), what));
        if let Some(problem) = &file.problem {
            warn(format!("front matter: {problem}"));
        }
        if file.lossy {
            warn(format!(
                "some bytes are no {} and were replaced",
                file.encoding
            ));
        }
        let (tags, refused): (Vec<String>, Vec<String>) = file
            .tags
            .iter()
            .cloned()
            .partition(|tag| checked_tags(std::slice::from_ref(tag)).is_ok());
        if !refused.is_empty() {
            warn(format!(
                "left out tags that cannot be: {}",
                refused.join(", ")
            ));
        }
        let known = self.known.get(path);
        if known.is_none() && self.deleted.get(path) == Some(&file.hash) {
            warn("its note is in the trash and stays there; `pkm restore` brings it back".into());
            self.report.n_unchanged += 1;
            return Ok(());
        }
        if file.encoding != "UTF-8" {
            self.report
                .decoded
                .push((path.to_owned(), file.encoding.to_owned()));
        }
        if known.is_some_and(|known| known.hash == file.hash) {
            self.report.n_unchanged += 1;
            return Ok(());
        }
        let state = match self.state(path, file, &tags) {
            Ok(state) => state,
            Err(Error::Invalid { field, reason }) => {
                self.report
                    .skipped
                    .push((path.to_owned(), format!("`{field}` {reason}")));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        match known {
            None => self.report.n_added += 1,
            Some(_) => self.report.n_updated += 1,
        }
        if self.dry_run == DryRun::Yes {
            return Ok(());
        }
        match known {
            None => self.add(state, file),
            Some(known) => {
                let id = known.id;
                self.update(id, &state, path, file.updated_at)
            }
        }
    }

    fn state(&self, path: &str, file: &FileNote, tags: &[String]) -> Result<NoteState, Error> {
        let folder = [self.into.as_str(), file.folder.as_str()].join("/");
        Ok(NoteState {
            title: file.title.chars().take(MAX_TITLE_CHARS).collect(),
            content: checked_content("content", file.content.clone())?,
            tags: checked_tags(tags)?,
            folder: checked_folder(&folder)?,
            source: Some(Source {
                root: self.root.clone(),
                path: path.to_owned(),
                hash: file.hash,
            }),
        })
    }

    fn add(&self, state: NoteState, file: &FileNote) -> Result<(), Error> {
        let chunks = self.engine.chunk(&state.title, &state.content);
        let note = NewNote {
            title: state.title,
            content: state.content,
            tags: state.tags,
            folder: state.folder,
            created_at: Some(file.created_at),
            updated_at: Some(file.updated_at),
            source: state.source,
        };
        self.engine
            .store()
            .add_note(&note, chunks.chunking(), Timestamp::now())?;
        Ok(())
    }

    fn update(
        &mut self,
        id: pkm_store::NoteId,
        state: &NoteState,
        path: &str,
        updated_at: Timestamp,
    ) -> Result<(), Error> {
        let before = self.engine.store().get_note(id)?;
        let was_edited_here = before.source.is_some_and(|source| {
            source.hash != *blake3::hash(before.content.as_bytes()).as_bytes()
        });
        if was_edited_here && before.content != state.content {
            self.report.warnings.push((
                path.to_owned(),
                format!(
                    "its note was edited here; the file's text is in its place now, \
                     and the edit is revision {} of note {id}",
                    before.revision
                ),
            ));
        }
        let chunks = self.engine.chunk(&state.title, &state.content);
        let edit = Edit {
            expected: None,
            state,
            chunking: chunks.chunking(),
        };
        self.engine.store().update_note(id, edit, updated_at)?;
        Ok(())
    }

    /// Moves notes to the trash whose file is gone.
    fn prune(&mut self, is_there: impl Fn(&str) -> bool) -> Result<(), Error> {
        let mut gone: Vec<&SourceEntry> = self
            .known
            .values()
            .filter(|source| !is_there(&source.path))
            .collect();
        gone.sort_by(|a, b| a.path.cmp(&b.path));
        for source in gone {
            self.report.n_removed += 1;
            if self.dry_run == DryRun::No {
                let note = self.engine.store().get_note(source.id)?;
                // A person's delete keeps a file away; this one must not, should the file return.
                let state = NoteState {
                    title: note.title,
                    content: note.content,
                    tags: note.tags,
                    folder: note.folder,
                    source: None,
                };
                let chunks = self.engine.chunk(&state.title, &state.content);
                let edit = Edit {
                    expected: None,
                    state: &state,
                    chunking: chunks.chunking(),
                };
                self.engine
                    .store()
                    .update_note(source.id, edit, note.updated_at)?;
                self.engine
                    .store()
                    .delete_note(source.id, None, Timestamp::now())?;
            }
        }
        Ok(())
    }
}

impl From<FolderError> for Error {
    fn from(error: FolderError) -> Self {
        let FolderError {
            doing,
            path,
            source,
        } = error;
        Self::Folder {
            doing,
            path: path.display().to_string(),
            source,
        }
    }
}
