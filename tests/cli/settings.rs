//! Where settings come from, `config`, `status`, `model`, `doctor` on a machine without a model.

use crate::support::Home;

#[test]
fn config_says_what_is_set_and_by_whom() {
    let home = Home::new();
    home.write(
        "config/pkm/config.toml",
        "log = \"error\"\ntrash_days = 7\n",
    );
    let run = home.finish(home.command().args(["--device", "cpu", "config"]));
    insta::assert_snapshot!("config", run.ok());
    let json = home.json(&["config"]);
    assert_eq!(json["settings"]["trash_days"]["value"], "7");
    assert_eq!(json["settings"]["trash_days"]["from"], "file");
    assert_eq!(json["settings"]["models"]["from"], "environment PKM_MODELS");
    assert_eq!(
        home.ok(&["config", "path"]),
        "[HOME]/config/pkm/config.toml\n"
    );
}

#[test]
fn a_mistake_in_the_config_file_stops_every_command_with_its_line() {
    let home = Home::new();
    home.write("config/pkm/config.toml", "# mine\nmodle = \"x\"\n");
    let stderr = home.pkm(&["list"]).fails(1);
    insta::assert_snapshot!("config-unknown-key", stderr);
}

#[test]
fn the_data_folder_is_the_flag_s_or_the_environment_s_or_the_usual_one() {
    let home = Home::new();
    home.add("usual", "x");
    assert!(home.path("share/pkm").is_dir());
    let other = home.path("other");
    let run = home.finish(
        home.command()
            .env("PKM_HOME", &other)
            .args(["list", "--json"]),
    );
    assert_eq!(run.json()["total"], 0);
    let other = other.to_str().expect("UTF-8");
    assert_eq!(home.json(&["--data", other, "list"])["total"], 0);
    assert_eq!(home.json(&["list"])["total"], 1);
}

#[test]
fn a_data_folder_that_is_a_file_is_named() {
    let home = Home::new();
    let file = home.write("notes.txt", "x");
    let file = file.to_str().expect("UTF-8");
    let stderr = home.pkm(&["--data", file, "list"]).fails(1);
    assert!(
        stderr.starts_with("error: ") && stderr.contains("[HOME]/notes.txt"),
        "{stderr}"
    );
}

#[test]
fn status_without_a_model_says_how_to_get_one() {
    let home = Home::new();
    home.add("하나", "내용");
    let status = home.ok(&["status"]);
    assert!(status.contains("notes     1, in the trash: 0"), "{status}");
    assert!(
        status.contains("`pkm model pull multilingual-e5-small`"),
        "{status}"
    );
    assert!(status.contains("scripts/fetch-model"), "{status}");
    let json = home.json(&["status"]);
    assert_eq!(json["notes"], 1);
    assert_eq!(json["model"]["state"], "absent");
    assert_eq!(json["store"]["path"], "[HOME]/share/pkm");
}

#[test]
fn models_are_listed_with_what_they_are_and_whether_they_are_there() {
    let home = Home::new();
    insta::assert_snapshot!("model-list", home.ok(&["model", "list"]));
    let list = home.json(&["model", "list"]);
    let names: Vec<&str> = list["models"]
        .as_array()
        .expect("models")
        .iter()
        .map(|model| {
            assert_eq!(model["state"], "missing");
            model["name"].as_str().expect("a name")
        })
        .collect();
    assert_eq!(
        names[..3],
        [
            "multilingual-e5-small",
            "multilingual-e5-small-q4",
            "all-minilm-l6-v2"
        ]
    );
    assert_eq!(
        home.ok(&["model", "path", "all-minilm-l6-v2"]),
        "[HOME]/models/all-minilm-l6-v2\n"
    );
    let stderr = home.pkm(&["model", "verify"]).fails(1);
    assert!(
        stderr.contains("hint: run `pkm model pull multilingual-e5-small`"),
        "{stderr}"
    );
}

#[test]
fn a_damaged_model_is_told_from_a_missing_one() {
    let home = Home::new();
    home.write(
        "models/all-minilm-l6-v2/model.safetensors",
        "not the weights",
    );
    let list = home.json(&["model", "list"]);
    assert_eq!(list["models"][2]["state"], "damaged");
    let stderr = home.pkm(&["model", "verify", "all-minilm-l6-v2"]).fails(1);
    assert!(stderr.contains("all-minilm-l6-v2"), "{stderr}");
    home.add("a", "b");
    let json = home.json(&["--model", "all-minilm-l6-v2", "status"]);
    assert_eq!(json["model"]["state"], "absent");
}

#[test]
fn a_model_that_is_only_in_packages_cannot_be_pulled_and_says_what_can() {
    let home = Home::new();
    let stderr = home
        .pkm(&["model", "pull", "multilingual-e5-small-q4"])
        .fails(1);
    assert!(
        stderr.contains("scripts/fetch-model multilingual-e5-small-q4"),
        "{stderr}"
    );
}

#[test]
fn a_hub_that_cannot_be_reached_is_one_clear_sentence() {
    let home = Home::new();
    // Nothing listens there.
    let run = home.finish(
        home.command()
            .env("HF_ENDPOINT", "http://127.0.0.1:9")
            .args(["model", "pull"]),
    );
    let stderr = run.fails(1);
    assert!(stderr.contains("cannot download"), "{stderr}");
    assert!(stderr.contains("hint: "), "{stderr}");
}

#[test]
fn doctor_finds_nothing_wrong_with_a_fresh_folder() {
    let home = Home::new();
    home.add("a", "b");
    let printed = home.ok(&["doctor"]);
    assert!(
        printed.contains("note: the model `multilingual-e5-small` is not installed"),
        "{printed}"
    );
    assert!(printed.ends_with("all is well\n"), "{printed}");
    assert_eq!(
        home.json(&["doctor", "--repair"])["repaired"],
        serde_json::json!([])
    );
}
