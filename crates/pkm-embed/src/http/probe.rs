//! Telling one model from another that answers under its name.
//!
//! A server says at most what its model is called. So a text of our own goes along with every
//! request: while its vector is the one that came at the start, the model is the same. The first
//! vector that a model gave is kept beside the notes under a name, which is part of the model's
//! fingerprint; so a model that was replaced while nobody looked is another one, and one that comes
//! back is the former one. The vector itself cannot be part of the fingerprint: other hardware
//! rounds otherwise.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::checksum::hex;

/// The text; in two scripts and without a meaning that a note is likely to have.
pub(super) const PROBE: &str =
    "A probe of the model: 17 quiet violins. 모형을 알아보는 글: 바이올린 열일곱 대.";
/// From this cosine on, two vectors of the probe are of one model. Half precision and other batches
/// stay above 0.9999; a model that was trained further does not.
const SAME_MODEL: f32 = 0.999;

/// The vectors that models gave for the probe.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    models: Vec<Model>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Model {
    /// What the settings and the server say of it.
    said: String,
    /// What tells it from others of which the same is said.
    name: String,
    probe: Vec<f32>,
}

/// How near two vectors of the probe are; both of length 1.
pub(super) fn likeness(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

pub(super) fn is_same(likeness: f32) -> bool {
    likeness >= SAME_MODEL
}

/// The name of the model that gave `probe`, among those of which `said` is said: as kept in the
/// file at `path`, or a new one. A file that cannot be read or written makes names that last for
/// this process, which costs embedding anew and nothing worse.
pub(super) fn recognize(path: &Path, said: &str, probe: &[f32]) -> String {
    let bytes: Vec<u8> = probe.iter().flat_map(|value| value.to_le_bytes()).collect();
    let new_name = hex(&Sha256::digest(bytes))[..16].to_owned();
    let found = (|| {
        let Ok(mut file) = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
        else {
            return Ok(name_of(&read(&mut File::open(path)?)?, said, probe));
        };
        // Two processes that begin together must come to one name.
        file.lock()?;
        let mut known = read(&mut file)?;
        if let Some(name) = name_of(&known, said, probe) {
            return Ok(Some(name));
        }
        let is_other = known.models.iter().any(|model| model.said == said);
        if is_other {
            tracing::warn!("the embedding server runs another model than before under its name");
        }
        known.models.push(Model {
            said: said.to_owned(),
            name: new_name.clone(),
            probe: probe.to_vec(),
        });
        let json = serde_json::to_vec(&known).expect("names and numbers make JSON");
        file.rewind()?;
        file.set_len(0)?;
        file.write_all(&json)?;
        Ok::<_, io::Error>(None)
    })();
    match found {
        Ok(name) => name.unwrap_or(new_name),
        Err(error) => {
            let path = path.display();
            tracing::warn!(%path, %error, "the model of the embedding server is not kept in mind");
            new_name
        }
    }
}

fn read(file: &mut File) -> io::Result<Known> {
    let mut json = Vec::new();
    file.read_to_end(&mut json)?;
    if json.is_empty() {
        return Ok(Known::default());
    }
    Ok(serde_json::from_slice(&json).unwrap_or_else(|error| {
        tracing::warn!(%error, "what was known of embedding servers is damaged, and begun anew");
        Known::default()
    }))
}

fn name_of(known: &Known, said: &str, probe: &[f32]) -> Option<String> {
    let same = |model: &&Model| {
        model.said == said
            && model.probe.len() == probe.len()
            && is_same(likeness(&model.probe, probe))
    };
    known.models.iter().find(same).map(|m| m.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_keeps_its_name_and_another_under_its_name_gets_one_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("probes.json");
        let first = recognize(&path, "m", &[1.0, 0.0]);
        // Other rounding, the same model.
        assert_eq!(recognize(&path, "m", &[0.99999, 0.001]), first);
        let second = recognize(&path, "m", &[0.6, 0.8]);
        assert_ne!(second, first);
        assert_eq!(recognize(&path, "m", &[0.6, 0.8]), second);
        assert_eq!(recognize(&path, "m", &[1.0, 0.0]), first);
        assert_ne!(recognize(&path, "other", &[0.8, 0.6]), first);
    }

    #[test]
    fn a_damaged_file_never_gives_a_model_the_name_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("probes.json");
        let first = recognize(&path, "m", &[1.0, 0.0]);
        for damaged in ["", "{", "null", "{\"models\": 3}"] {
            std::fs::write(&path, damaged).unwrap();
            assert_ne!(recognize(&path, "m", &[0.6, 0.8]), first);
        }
        assert_ne!(recognize(dir.path(), "m", &[0.6, 0.8]), first);
    }
}
