//! What is said of models that are missing, damaged or not what the manifest says.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod common;

use std::fs::{self, File};
use std::path::Path;

use common::{manifest, tiny_folder, words};
use pkm_embed::{
    Damage, DeviceChoice, Encoder, Error, ListedModel, Manifest, ManifestFault, ModelFolder,
    ModelState, Source,
};

const MINILM: &str = "all-minilm-l6-v2";

/// A copy of the small model that a test may damage, and its manifest without checksums, so that
/// it is the reader and not the checksum that finds the damage.
fn copy_of_minilm() -> (tempfile::TempDir, Manifest) {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join(MINILM);
    fs::create_dir(&target).unwrap();
    let mut unpinned = manifest(MINILM).clone();
    for file in &mut unpinned.files {
        let source = common::models().join(MINILM).join(&file.name);
        assert!(source.exists(), "run scripts/fetch-model {MINILM}");
        fs::copy(source, target.join(&file.name)).unwrap();
        (file.size_bytes, file.sha256) = (None, None);
    }
    (root, unpinned)
}

fn load(manifest: &Manifest, root: &Path) -> Error {
    Encoder::load(manifest, &root.join(&manifest.name), DeviceChoice::Cpu).unwrap_err()
}

fn truncate(path: &Path, n_bytes: u64) {
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(n_bytes)
        .unwrap();
}

#[test]
fn every_built_in_manifest_is_readable_and_the_multilingual_model_is_the_default() {
    let names: Vec<&str> = Manifest::builtin()
        .iter()
        .map(|model| &model.name[..])
        .collect();
    assert_eq!(names[0], "multilingual-e5-small");
    for (idx, name) in names.iter().enumerate() {
        assert!(!names[..idx].contains(name), "`{name}` twice");
    }
    for manifest in Manifest::builtin() {
        // Either each file is pinned by its own checksum, or the hub's commit pins them all.
        let is_commit = manifest.revision.len() == 40
            && manifest.revision.bytes().all(|b| b.is_ascii_hexdigit());
        let on_hub = matches!(manifest.sources[..], [Source::Hub { .. }]);
        assert!(
            (is_commit && on_hub) || manifest.files.iter().all(|file| file.sha256.is_some()),
            "{}",
            manifest.name
        );
        assert!(!manifest.sources.is_empty());
    }
}

#[test]
fn a_manifest_that_would_do_harm_or_nothing_is_refused_with_the_reason() {
    let good = include_str!("../../../models/all-minilm-l6-v2.toml");
    let check = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        match Manifest::parse(&good.replacen(from, to, 1)) {
            Err(Error::Manifest { name, fault }) => {
                assert_eq!(name == MINILM, !from.starts_with("name = \"all"), "{name}");
                fault
            }
            other => panic!("{from} -> {to}: {other:?}"),
        }
    };
    for file in [
        "../x",
        "/etc/x",
        "a/../../x",
        "a\\..\\x",
        "C:x",
        "",
        "a/",
        "./x",
        "a//../x",
    ] {
        // In TOML's basic strings a backslash is written twice.
        let written = file.replace('\\', "\\\\");
        let fault = check("name = \"config.json\"", &format!("name = \"{written}\""));
        assert_eq!(
            fault,
            ManifestFault::FileEscapes {
                file: file.to_owned()
            }
        );
    }
    assert_eq!(
        check("name = \"config.json\"", "name = \"other.json\""),
        ManifestFault::FileMissing {
            file: "config.json"
        }
    );
    assert!(matches!(
        check("dimension = 384", "dimension = 0"),
        ManifestFault::Number { .. }
    ));
    assert!(matches!(
        check("window = 256", "window = 2"),
        ManifestFault::Number { .. }
    ));
    assert!(matches!(
        check("pooling = \"mean\"", "pooling = \"max\""),
        ManifestFault::Syntax { .. }
    ));
    assert!(matches!(
        check("licence", "license"),
        ManifestFault::Syntax { .. }
    ));
    assert!(matches!(
        check("sha256 = \"9", "sha256 = \"X"),
        ManifestFault::Checksum { .. }
    ));
    assert_eq!(
        check("name = \"all-minilm-l6-v2\"", "name = \"../x\""),
        ManifestFault::Name
    );
}

#[test]
fn a_model_that_is_not_there_is_missing_and_says_how_to_get_it() {
    let root = tempfile::tempdir().unwrap();
    let folder = ModelFolder::new(root.path());
    for ListedModel {
        manifest, state, ..
    } in folder.list()
    {
        let manifest = &manifest.unwrap();
        assert!(matches!(state, ModelState::Missing));
        let error = load(manifest, root.path());
        assert!(matches!(error, Error::Missing { .. }));
        let error = error.to_string();
        assert!(
            error.contains(&manifest.name) && error.contains("hint: run `"),
            "{error}"
        );
        assert_eq!(folder.verify(manifest).unwrap_err().to_string(), error);
    }
}

#[test]
fn an_installed_model_verifies() {
    let folder = ModelFolder::new(common::models());
    folder.verify(manifest(MINILM)).unwrap();
    assert!(matches!(
        folder.state(manifest(MINILM)),
        ModelState::Installed
    ));
}

#[test]
fn damage_is_found_with_the_file_and_the_reason() {
    let (root, unpinned) = copy_of_minilm();
    let folder = ModelFolder::new(root.path());
    let weights = folder.path(&unpinned).join("model.safetensors");
    let check = |manifest: &Manifest, parts: &[&str]| {
        let error = words(&load(manifest, root.path()));
        for part in parts {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    };
    let pinned = manifest(MINILM);

    let mut other = unpinned.clone();
    other.dimension = 768;
    check(
        &other,
        &["config.json", "`hidden_size` is 384, expected 768"],
    );
    other = unpinned.clone();
    other.window = 513;
    check(
        &other,
        &[
            "config.json",
            "`max_position_embeddings` is 512, expected at least 513",
        ],
    );

    let mut bytes = fs::read(&weights).unwrap();
    bytes[50_000_000] ^= 1;
    fs::write(&weights, &bytes).unwrap();
    assert!(matches!(folder.state(pinned), ModelState::Installed));
    let error = folder.verify(pinned).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Damaged {
                damage: Damage::Checksum { .. },
                ..
            }
        ),
        "{error}"
    );
    check(
        pinned,
        &[
            "model.safetensors",
            "has sha256",
            "hint: run `pkm model pull",
        ],
    );

    truncate(&weights, 40_000_000);
    check(
        pinned,
        &[
            "model.safetensors",
            "has 40000000 bytes, the manifest says 90868376",
        ],
    );
    assert!(matches!(folder.state(pinned), ModelState::Damaged(_)));
    check(
        &unpinned,
        &["model.safetensors", "would end at byte", "of 40000000"],
    );
    truncate(&weights, 100);
    check(&unpinned, &["model.safetensors", "header would end"]);
    truncate(&weights, 5);
    check(&unpinned, &["model.safetensors", "safetensors"]);
    truncate(&weights, 0);
    check(&unpinned, &["model.safetensors", "is empty"]);
    fs::remove_file(&weights).unwrap();
    check(&unpinned, &["model.safetensors", "is missing"]);
    assert!(matches!(folder.state(&unpinned), ModelState::Damaged(_)));

    let tokenizer = folder.path(&unpinned).join("tokenizer.json");
    fs::write(&weights, &bytes).unwrap();
    truncate(&tokenizer, 1000);
    check(
        &unpinned,
        &["tokenizer.json", "cannot be read as a tokenizer"],
    );
    fs::write(
        folder.path(&unpinned).join("config.json"),
        "{\"hidden_size\": 384}",
    )
    .unwrap();
    check(
        &unpinned,
        &["config.json", "settings of a BERT model", "missing field"],
    );
}

#[test]
fn weights_of_another_shape_are_refused_with_both_shapes() {
    let (root, unpinned) = copy_of_minilm();
    let config = root.path().join(MINILM).join("config.json");
    let json = fs::read_to_string(&config).unwrap();
    let check = |from: &str, to: &str, parts: &[&str]| {
        assert!(json.contains(from));
        fs::write(&config, json.replace(from, to)).unwrap();
        let error = words(&load(&unpinned, root.path()));
        for part in parts {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    };
    check(
        "\"intermediate_size\": 1536",
        "\"intermediate_size\": 1024",
        &[
            "encoder.layer.0.intermediate.dense.weight",
            "[1536, 384]",
            "[1024, 384]",
        ],
    );
    check(
        "\"num_hidden_layers\": 6",
        "\"num_hidden_layers\": 7",
        &["no tensor `encoder.layer.6.attention.self.query.weight`"],
    );
    check(
        "\"num_attention_heads\": 12",
        "\"num_attention_heads\": 7",
        &["a divisor of 384"],
    );
    check(
        "\"hidden_act\": \"gelu\"",
        "\"hidden_act\": \"relu\"",
        &["`hidden_act` is relu"],
    );
    check(
        "\"vocab_size\": 30522",
        "\"vocab_size\": 30000",
        &["tokenizer.json", "token id 30521", "only 30000 words"],
    );
}

#[test]
fn a_truncated_gguf_file_is_refused() {
    let name = "multilingual-e5-small-q4";
    let source = common::models().join(name);
    assert!(
        source.join("model.gguf").exists(),
        "run scripts/fetch-model {name}"
    );
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join(name);
    fs::create_dir(&target).unwrap();
    let mut unpinned = manifest(name).clone();
    for file in &mut unpinned.files {
        fs::copy(source.join(&file.name), target.join(&file.name)).unwrap();
        (file.size_bytes, file.sha256) = (None, None);
    }
    for n_bytes in [60_000_000, 5_000_000, 1000, 10] {
        truncate(&target.join("model.gguf"), n_bytes);
        let error = words(&load(&unpinned, root.path()));
        assert!(
            error.contains("model.gguf` cannot be read as GGUF"),
            "{error}"
        );
    }
}

/// A models' folder that holds `toml` as the manifest of the model in `folder`.
fn described(folder: &str, toml: &str) -> (tempfile::TempDir, ModelFolder) {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join(folder);
    fs::create_dir(&place).unwrap();
    fs::write(place.join("manifest.toml"), toml).unwrap();
    let models = ModelFolder::new(root.path());
    (root, models)
}

fn tiny_toml() -> String {
    fs::read_to_string(tiny_folder("tiny-bert").join("manifest.toml")).unwrap()
}

#[test]
fn a_manifest_in_a_folder_of_its_own_is_one_more_model() {
    let (root, models) = described("tiny-bert", &tiny_toml());
    // What is no model does not disturb the list.
    fs::write(root.path().join("a file"), "").unwrap();
    fs::create_dir(root.path().join("empty")).unwrap();
    let manifest = models.manifest("tiny-bert").unwrap().unwrap();
    assert_eq!((&manifest.name[..], manifest.dimension), ("tiny-bert", 32));
    let listed = models.list();
    assert_eq!(listed.len(), Manifest::builtin().len() + 1);
    let last = listed.last().unwrap();
    assert_eq!(last.name, "tiny-bert");
    assert!(matches!(last.state, ModelState::Missing));
    for file in &manifest.files {
        let target = models.path(&manifest).join(&file.name);
        fs::copy(tiny_folder("tiny-bert").join(&file.name), target).unwrap();
    }
    assert!(matches!(models.state(&manifest), ModelState::Installed));
    models.verify(&manifest).unwrap();
    Encoder::load(&manifest, &models.path(&manifest), DeviceChoice::Cpu).unwrap();
    assert!(models.manifest("no-such-model").unwrap().is_none());
    assert_eq!(
        models.manifest(MINILM).unwrap().as_ref(),
        Manifest::named(MINILM)
    );
}

#[test]
fn a_manifest_that_cannot_be_used_is_listed_with_the_reason_and_refused() {
    let good = tiny_toml();
    let check = |folder: &str, toml: &str, reason: &str| {
        let (_root, models) = described(folder, toml);
        let error = models.manifest(folder).unwrap_err().to_string();
        assert!(
            error.contains(reason) && error.contains("manifest.toml"),
            "`{reason}` is not in: {error}"
        );
        let listed = models.list();
        let model = listed.iter().find(|model| model.name == folder).unwrap();
        assert!(model.manifest.is_none());
        match &model.state {
            ModelState::Damaged(found) => assert_eq!(found.to_string(), error),
            other => panic!("{other:?}"),
        }
    };
    check("tiny-bert", "name = ", "describes no usable model");
    check("tiny-bert", "", "missing field `name`");
    check(
        "tiny-bert",
        &good.replace("window = 64", "window = 0"),
        "`window` is 0",
    );
    check(
        "tiny-bert",
        &good.replace("\"bert\"", "\"gpt\""),
        "unknown variant `gpt`",
    );
    check("other", &good, "called `tiny-bert`, the folder `other`");
    let taken = good.replace("\"tiny-bert\"", &format!("\"{MINILM}\""));
    check(MINILM, &taken, "is the name of a built-in model");
    check(MINILM, &good, "is the name of a built-in model");
    check("other", &taken, "is the name of a built-in model");
    let toml = good.replace("\"bert\"", "\"static\"");
    let toml = toml.replace("\"mean\"", "\"cls\"");
    check("tiny-bert", &toml, "can only be `mean`");
}
