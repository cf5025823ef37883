//! Models that a user brings, and models that are broken, with tiny ones of random weights.

use std::fs;

use crate::support::{Home, workspace};

const NAME: &str = "tiny-bert";

/// A home with the tiny model `name`, set as the model in use.
fn home_with(name: &str) -> Home {
    let home = Home::new();
    let folder = workspace().join("crates/pkm-embed/tests/tiny").join(name);
    for file in [
        "manifest.toml",
        "config.json",
        "tokenizer.json",
        "model.safetensors",
    ] {
        let bytes = fs::read(folder.join(file)).expect("a file of the tiny model");
        home.write(&format!("models/{name}/{file}"), bytes);
    }
    home.write("config/pkm/config.toml", format!("model = \"{name}\"\n"));
    home
}

#[test]
fn a_model_described_in_its_folder_is_listed_verified_and_used() {
    let home = home_with(NAME);
    let list = home.ok(&["model", "list"]);
    assert!(
        list.lines()
            .any(|line| line.starts_with(&format!("* {NAME} ")) && line.contains(" installed ")),
        "{list}"
    );
    let json = home.json(&["model", "list"]);
    let models = json["models"].as_array().expect("models");
    let model = models.last().expect("a model");
    assert_eq!(model["name"], NAME);
    assert_eq!(
        (&model["dim"], &model["in_use"]),
        (&32.into(), &true.into())
    );
    assert_eq!(
        home.ok(&["model", "verify", NAME]),
        format!("{NAME}: as it should be\n")
    );
    home.add("고양이", "고양이 예방접종은 매년 오월에 맞힌다.\n");
    home.add(
        "ferry",
        "The ferry to the island leaves at nine in the morning.\n",
    );
    let run = home.pkm(&["reindex"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let json = home.json(&["status"]);
    assert_eq!(
        (
            &json["model"]["name"],
            &json["model"]["state"],
            &json["indexed"]
        ),
        (&NAME.into(), &"ready".into(), &2.into())
    );
    let found = home.json(&["search", "--vector", "The ferry leaves at nine."]);
    assert_eq!(found["matches"][0]["title"], "ferry", "{found}");
    let stderr = home.pkm(&["model", "pull", NAME]).fails(1);
    assert!(
        stderr.contains("is not on the hub\nhint: copy its files into"),
        "{stderr}"
    );
}

#[test]
fn a_built_in_name_cannot_be_taken() {
    let home = home_with(NAME);
    let toml = fs::read(home.path("models/tiny-bert/manifest.toml")).expect("the manifest");
    home.write("models/all-minilm-l6-v2/manifest.toml", toml);
    let list = home.ok(&["model", "list"]);
    assert!(
        list.contains("`all-minilm-l6-v2` is the name of a built-in model; rename the folder"),
        "{list}"
    );
    let stderr = home.pkm(&["model", "verify", "all-minilm-l6-v2"]).fails(1);
    assert!(
        stderr.contains("all-minilm-l6-v2/manifest.toml` describes no usable model"),
        "{stderr}"
    );
}

/// Notes are there without the model, and every command that tells of it names `damage`.
fn check_without_model(home: &Home, damage: &[&str]) {
    let named = |text: &str| {
        for part in damage {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
        assert!(!text.contains("panicked"), "{text}");
    };
    home.add("김치", "김치찌개는 약한 불로 끓인다.\n");
    let found = home.json(&["search", "김치찌개"]);
    assert_eq!(found["matches"][0]["title"], "김치", "{found}");
    named(&found.to_string());
    let run = home.pkm(&["search", "김치찌개"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    named(&format!("{}{}", run.stdout, run.stderr));
    let status = home.json(&["status"]);
    assert_eq!(
        (&status["indexed"], &status["notes"]),
        (&0.into(), &1.into()),
        "{status}"
    );
    named(&home.ok(&["status"]));
    let doctor = home.pkm(&["doctor"]);
    assert_eq!(doctor.code, 1, "{}", doctor.stdout);
    named(&doctor.stdout);
    named(&home.pkm(&["model", "verify"]).fails(1));
    // Nothing is embedded, and that is no failure of a reindex.
    let run = home.pkm(&["reindex"]);
    named(&run.stderr);
    assert_eq!(home.json(&["status"])["indexed"], 0);
    assert_eq!(home.json(&["list"])["total"], 1);
}

#[test]
fn with_weights_that_are_broken_notes_are_kept_and_found_by_words() {
    let home = home_with(NAME);
    let path = home.path("models/tiny-bert/model.safetensors");
    let sound = fs::read(&path).expect("weights");
    // Not a number in the last tensor.
    let mut bytes = sound.clone();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&path, bytes).expect("weights");
    check_without_model(
        &home,
        &["model.safetensors", "not finite", "copy its files into"],
    );

    let home = home_with(NAME);
    let path = home.path("models/tiny-bert/model.safetensors");
    fs::write(path, &sound[..sound.len() / 2]).expect("weights");
    check_without_model(
        &home,
        &[
            "model.safetensors",
            "would end at byte",
            "copy its files into",
        ],
    );
}

#[test]
fn with_settings_or_a_tokenizer_that_are_broken_notes_are_kept_and_found_by_words() {
    let home = home_with(NAME);
    home.write("models/tiny-bert/config.json", "{\"hidden_size\": 32");
    check_without_model(&home, &["config.json", "EOF", "copy its files into"]);
    let home = home_with(NAME);
    let folder = workspace().join("crates/pkm-embed/tests/tiny/tiny-qwen3");
    let other = fs::read(folder.join("tokenizer.json")).expect("a tokenizer");
    home.write("models/tiny-bert/tokenizer.json", other);
    check_without_model(
        &home,
        &["tokenizer.json", "token id", "copy its files into"],
    );
}

#[test]
fn with_a_manifest_that_is_broken_notes_are_kept_and_found_by_words() {
    let home = home_with(NAME);
    home.write("models/tiny-bert/manifest.toml", "name = \"tiny-bert\"\n");
    check_without_model(&home, &["manifest.toml", "missing field"]);
}
