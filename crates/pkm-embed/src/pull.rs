//! Fetching a model from the hub into the model folder.
//!
//! A model is built up in a hidden folder beside its place and renamed into it when every file is
//! there and checked, so that nobody ever sees half a model. The hidden folder survives a failure:
//! the next pull goes on where this one stopped. A lock file keeps two pulls apart, of this program
//! and of `scripts/fetch-model`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use hf_hub::api::Progress;
use hf_hub::api::sync::{Api, ApiBuilder, ApiError};
use hf_hub::{Cache, Repo, RepoType};

use crate::checksum;
use crate::error::{Damage, Error};
use crate::folder::{ModelFolder, USER_MANIFEST, check_files, hint, note_checksums};
use crate::manifest::{Manifest, ModelFile, Source};

/// How often a file is tried again after a connection that broke.
const MAX_RETRIES: usize = 4;

/// Where to pull from.
#[derive(Debug, Clone)]
pub struct PullOptions {
    /// Address of the hub, without a slash at the end.
    pub endpoint: String,
    /// How long the hub may be silent before a pull gives up.
    pub stall_timeout: Duration,
}

impl PullOptions {
    /// The public hub.
    pub fn new() -> PullOptions {
        PullOptions {
            endpoint: "https://huggingface.co".to_owned(),
            stall_timeout: Duration::from_secs(60),
        }
    }
}

impl Default for PullOptions {
    fn default() -> PullOptions {
        PullOptions::new()
    }
}

/// How far a pull is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullProgress {
    /// The file that is being fetched.
    pub file: String,
    /// Bytes of the whole model that are here, those of an earlier pull included.
    pub done_bytes: u64,
    /// Bytes of the whole model, as far as they are known.
    pub total_bytes: u64,
}

impl ModelFolder {
    /// Fetches a model from the hub, or the rest of it after a pull that broke off; does nothing
    /// if it is already here and undamaged. `on_progress` is called from this thread, many times
    /// a second, and must be quick.
    ///
    /// # Errors
    ///
    /// [`Error::NotOnHub`] when the manifest names no hub, [`Error::Download`] when the hub cannot
    /// be reached or the connection breaks, [`Error::Damaged`] when what came is not what was
    /// pinned or announced, [`Error::Io`] when it cannot be written.
    pub fn pull(
        &self,
        manifest: &Manifest,
        options: PullOptions,
        on_progress: &mut dyn FnMut(PullProgress),
    ) -> Result<(), Error> {
        let PullOptions {
            endpoint,
            stall_timeout,
        } = options;
        let folder = self.path(manifest);
        let repository = manifest.sources.iter().find_map(|source| match source {
            Source::Hub { repository } => Some(repository.clone()),
            Source::Wheels { .. } => None,
        });
        let Some(repository) = repository else {
            let (model, hint) = (manifest.name.clone(), hint(manifest, &folder));
            return Err(Error::NotOnHub { model, hint });
        };
        fs::create_dir_all(self.root()).map_err(io("create", self.root()))?;
        let lock = self.lock(manifest)?;
        if check_files(manifest, &folder).is_ok() {
            return Ok(());
        }
        let work = self.root().join(format!(".{}.pull", manifest.name));
        let mut pull = Pull {
            manifest,
            folder: &folder,
            staged: work.join("model"),
            repo: Repo::with_revision(repository, RepoType::Model, manifest.revision.clone()),
            api: ApiBuilder::from_cache(Cache::new(work.join("hub")))
                .with_endpoint(endpoint.clone())
                .with_token(None)
                .with_progress(false)
                .build()
                .map_err(|error| Error::Download {
                    model: manifest.name.clone(),
                    file: manifest.weights().name.clone(),
                    endpoint: endpoint.clone(),
                    hint: hint(manifest, &folder),
                    source: error.into(),
                })?,
            endpoint,
            stall_timeout,
            lock,
            done_bytes: 0,
            total_bytes: manifest
                .files
                .iter()
                .filter_map(|file| file.size_bytes)
                .sum(),
            on_progress,
        };
        for file in &manifest.files {
            pull.fetch(file)?;
        }
        let staged = pull.staged.clone();
        note_checksums(manifest, &staged).map_err(io("note checksums in", &staged))?;
        let described = folder.join(USER_MANIFEST);
        if described.exists() {
            let kept = staged.join(USER_MANIFEST);
            fs::copy(&described, &kept).map_err(io("copy to", &kept))?;
        }
        if folder.exists() {
            // It was damaged or held only its manifest, or the check above would have ended here.
            let damaged = work.join("damaged");
            fs::rename(&folder, &damaged).map_err(io("move away", &folder))?;
        }
        fs::rename(&staged, &folder).map_err(io("move the model to", &folder))?;
        fs::remove_dir_all(&work).map_err(io("remove", &work))
    }

    /// Waits until no other pull of this model is running.
    fn lock(&self, manifest: &Manifest) -> Result<Arc<File>, Error> {
        let path = self.root().join(format!(".{}.lock", manifest.name));
        let file = File::create(&path).map_err(io("create", &path))?;
        file.lock().map_err(io("lock", &path))?;
        Ok(Arc::new(file))
    }
}

/// A pull under way.
struct Pull<'a> {
    manifest: &'a Manifest,
    folder: &'a Path,
    /// Where the checked files are gathered.
    staged: PathBuf,
    api: Api,
    repo: Repo,
    endpoint: String,
    stall_timeout: Duration,
    /// Shared with the thread that downloads, so that nobody writes to the same files as long as
    /// it may still do so.
    lock: Arc<File>,
    /// Bytes of the files that are complete.
    done_bytes: u64,
    total_bytes: u64,
    on_progress: &'a mut dyn FnMut(PullProgress),
}

impl Pull<'_> {
    /// Fetches one file into the staged folder, unless an earlier pull has done it.
    fn fetch(&mut self, file: &ModelFile) -> Result<(), Error> {
        let staged = self.staged.join(&file.name);
        // Without a pinned checksum nothing says that an earlier file is the right one.
        if !(file.sha256.is_some() && staged.exists() && self.check(file, &staged, "").is_ok()) {
            let parent = staged.parent().expect("it was joined to a folder");
            fs::create_dir_all(parent).map_err(io("create", parent))?;
            let mut n_retries = 0;
            loop {
                let (blob, etag) = self.download(file)?;
                match self.check(file, &blob, &etag) {
                    Ok(()) => {
                        fs::rename(&blob, &staged).map_err(io("move to", &staged))?;
                        break;
                    }
                    // Pieces of two versions of the file, or of a hub that cannot resume: once
                    // more from the start.
                    Err(_) if n_retries == 0 => {
                        n_retries += 1;
                        fs::remove_file(&blob).map_err(io("remove", &blob))?;
                    }
                    Err(error) => {
                        let _ = fs::remove_file(&blob);
                        return Err(error);
                    }
                }
            }
        }
        let size = staged.metadata().map_err(io("look at", &staged))?.len();
        self.done_bytes += size;
        if file.size_bytes.is_none() {
            self.total_bytes += size;
        }
        self.report(file, 0);
        Ok(())
    }

    /// Compares a file with what is pinned, or with the hub's mark of it if nothing is: the
    /// SHA-256 of a large file, the git id of a small one.
    fn check(&self, file: &ModelFile, path: &Path, etag: &str) -> Result<(), Error> {
        let size = path.metadata().map_err(io("look at", path))?.len();
        let (algorithm, found, expected) = match (&file.sha256, etag.len()) {
            (Some(pinned), _) => ("sha256", checksum::sha256(path), &pinned[..]),
            (None, 64) => ("sha256", checksum::sha256(path), etag),
            (None, 40) => ("git id", checksum::git_blob_sha1(path), etag),
            (None, _) => (
                "etag",
                Ok("no checksum that is pinned or announced".to_owned()),
                etag,
            ),
        };
        let found = found.map_err(io("read", path))?;
        let damage = match file.size_bytes {
            Some(expected) if size != expected => Damage::Size {
                found: size,
                expected,
            },
            _ if found != expected => Damage::Checksum {
                algorithm,
                found,
                expected: expected.to_owned(),
            },
            _ => return Ok(()),
        };
        let hint = format!("pull again, or {}", self.ways());
        Err(Error::Damaged {
            path: PathBuf::from(&file.name),
            damage,
            hint,
        })
    }

    /// Downloads one file, resuming as long as each try gets further, and gives its place and the
    /// hub's mark of it.
    fn download(&mut self, file: &ModelFile) -> Result<(PathBuf, String), Error> {
        let mut n_retries = 0;
        let mut furthest = 0;
        loop {
            let events = self.start(file);
            match self.follow(file, &events) {
                Ok(found) => return Ok(found),
                Err(Broken { source, n_bytes }) => {
                    if n_bytes > furthest && n_retries < MAX_RETRIES {
                        tracing::warn!(file = file.name, n_bytes, error = %source, "resuming");
                        (n_retries, furthest) = (n_retries + 1, n_bytes);
                        continue;
                    }
                    return Err(Error::Download {
                        model: self.manifest.name.clone(),
                        file: file.name.clone(),
                        endpoint: self.endpoint.clone(),
                        hint: format!(
                            "check the connection and pull again (what is here is kept), or {}",
                            self.ways()
                        ),
                        source,
                    });
                }
            }
        }
    }

    /// Starts a thread that downloads: the client has no time limits of its own, and a thread can
    /// be left behind.
    fn start(&self, file: &ModelFile) -> Receiver<Event> {
        let (sender, receiver) = channel();
        let (api, repo, name) = (self.api.clone(), self.repo.clone(), file.name.clone());
        let lock = Arc::clone(&self.lock);
        std::thread::spawn(move || {
            let repo = api.repo(repo);
            let done = api
                .metadata(&repo.url(&name))
                .map_err(Refused::Client)
                .and_then(|found| {
                    // They become names of files: nothing but a plain word may get that far.
                    for mark in [found.etag(), found.commit_hash()] {
                        if !mark.bytes().all(|b| b.is_ascii_alphanumeric()) {
                            return Err(Refused::Mark(mark.to_owned()));
                        }
                    }
                    let path = repo.download_with_progress(&name, Reports(sender.clone()));
                    Ok((path.map_err(Refused::Client)?, found.etag().to_owned()))
                });
            drop(lock);
            // Nobody listens any more if the pull gave up on this thread.
            let _ = sender.send(Event::Done(done));
        });
        receiver
    }

    fn follow(
        &mut self,
        file: &ModelFile,
        events: &Receiver<Event>,
    ) -> Result<(PathBuf, String), Broken> {
        let mut n_bytes = 0;
        let broken = |n_bytes, source: Box<dyn std::error::Error + Send + Sync>| {
            Err(Broken { source, n_bytes })
        };
        loop {
            match events.recv_timeout(self.stall_timeout) {
                Ok(Event::Started) => n_bytes = 0,
                Ok(Event::Received(n_more)) => {
                    n_bytes += n_more;
                    self.report(file, n_bytes);
                }
                Ok(Event::Done(Ok((path, etag)))) => {
                    return match path.canonicalize() {
                        Ok(blob) => Ok((blob, etag)),
                        Err(error) => broken(n_bytes, error.into()),
                    };
                }
                Ok(Event::Done(Err(refused))) => return broken(n_bytes, refused.into()),
                Err(RecvTimeoutError::Timeout) => {
                    let reason = format!("no answer for {:?}", self.stall_timeout);
                    // Another try would meet the thread that still waits.
                    return broken(0, reason.into());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return broken(0, "the download ended without a result".into());
                }
            }
        }
    }

    fn report(&mut self, file: &ModelFile, n_bytes: u64) {
        (self.on_progress)(PullProgress {
            file: file.name.clone(),
            done_bytes: self.done_bytes + n_bytes,
            total_bytes: self.total_bytes,
        });
    }

    /// Other ways to the model than this pull.
    fn ways(&self) -> String {
        hint(self.manifest, self.folder)
    }
}

/// A try that did not end with the file.
struct Broken {
    source: Box<dyn std::error::Error + Send + Sync>,
    /// Bytes of the file that are here.
    n_bytes: u64,
}

enum Event {
    Started,
    Received(u64),
    Done(Result<(PathBuf, String), Refused>),
}

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Client(ApiError),
    #[error("the hub marks the file with `{0}`, which cannot be a file name")]
    Mark(String),
}

/// Passes on what the client reports.
struct Reports(Sender<Event>);

impl Progress for Reports {
    fn init(&mut self, _size: usize, _filename: &str) {
        let _ = self.0.send(Event::Started);
    }

    fn update(&mut self, n_bytes: usize) {
        let _ = self.0.send(Event::Received(n_bytes as u64));
    }

    fn finish(&mut self) {}
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io {
        doing,
        path,
        source,
    }
}
