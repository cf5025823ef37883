//! A server that embeds, as a user has it: found, away, back.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use pkm_embed::{DeviceChoice, Embedder, Encoder, Manifest, Role};
use serde_json::json;

use crate::farm::{Api, Farm, Reply};
use crate::serve::Server;
use crate::support::{Home, MODEL, workspace};

/// Long enough for anything that a test waits for; nothing waits that long when all is well.
const PATIENCE: Duration = Duration::from_secs(60);

/// The real model without its prefixes: a server does not know of them.
static ENCODER: LazyLock<Arc<Encoder>> = LazyLock::new(|| {
    let folder = workspace().join(".cache/models").join(MODEL);
    let mut manifest = Manifest::named(MODEL).expect("a model of ours").clone();
    manifest.prefixes.query.clear();
    manifest.prefixes.passage.clear();
    let encoder = Encoder::load(&manifest, &folder, DeviceChoice::Cpu);
    Arc::new(encoder.unwrap_or_else(|error| {
        panic!("this test needs the model: run `scripts/fetch-model {MODEL}` first: {error}")
    }))
});

fn farm(api: Api) -> Farm {
    Farm::start(api, |asked| {
        let texts: Vec<&str> = asked.texts.iter().map(String::as_str).collect();
        let embedded = ENCODER.embed(&texts, Role::Passage).expect("it embeds");
        Reply::Vectors(embedded.vectors)
    })
}

/// A home whose config file names the server.
fn home(farm: &Farm) -> Home {
    let home = Home::new();
    home.write(
        "config/pkm/config.toml",
        format!(
            "embedder = \"http\"\nembedder_url = \"{}\"\nmodel = \"stand-in\"\n\
             embedder_query_prefix = \"query: \"\nembedder_passage_prefix = \"passage: \"\n",
            farm.url()
        ),
    );
    home
}

#[test]
fn notes_are_found_by_meaning_and_by_words_while_the_server_is_away() {
    for api in [Api::OpenAi, Api::Tei] {
        let mut farm = farm(api);
        let home = home(&farm);
        home.add("백김치", "고춧가루를 넣지 않은 김치라 아이들도 잘 먹는다.");
        home.add(
            "Connection pool",
            "We raised the pool size because requests waited.",
        );
        let answer = home.json(&["search", "--vector", "mild food that kids can eat"]);
        assert_eq!(answer["matches"][0]["title"], "백김치", "{answer}");
        assert_eq!(answer["index"]["state"], "complete");
        let status = home.json(&["status"]);
        assert_eq!(status["model"]["state"], "ready");
        assert_eq!(status["model"]["name"], "stand-in");
        assert_eq!(status["model"]["device"], farm.url());
        assert!(
            farm.asked()
                .iter()
                .any(|asked| asked.texts[0].starts_with("query: mild"))
        );

        farm.kill();
        let id = home.add("베란다", "토마토 모종을 심고 물을 주었다.");
        let run = home.pkm(&["search", "토마토"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(
            run.stdout.contains(&format!("#{id}  베란다")),
            "{}",
            run.stdout
        );
        let away = format!(
            "by words only: search by meaning is not available: the embedding server at {} cannot \
             be reached",
            farm.url()
        );
        assert!(run.stderr.contains(&away), "{}", run.stderr);
        let stderr = home
            .pkm(&["search", "--vector", "growing vegetables"])
            .fails(1);
        assert!(
            stderr.contains("error: search by meaning is not available: the embedding server"),
            "{stderr}"
        );
        assert!(
            stderr.contains("start the server, or correct `embedder_url`"),
            "{stderr}"
        );
        let status = home.json(&["status"]);
        assert_eq!(status["model"]["state"], "away");
        let stderr = home.pkm(&["reindex"]).fails(1);
        assert!(
            stderr.contains("nothing can be embedded: the embedding server"),
            "{stderr}"
        );
        assert!(
            home.ok(&["doctor"])
                .contains("note: the model is away: the embedding server")
        );

        farm.revive();
        let answer = home.json(&["search", "--vector", "growing vegetables on the balcony"]);
        assert_eq!(answer["matches"][0]["title"], "베란다", "{answer}");
        let status = home.json(&["status"]);
        assert_eq!(
            (&status["pending"], &status["failed"]),
            (&json!(0), &json!(0))
        );
    }
}

#[test]
fn a_running_server_of_notes_goes_on_without_the_embedding_server_and_takes_it_up_again() {
    let mut farm = farm(Api::OpenAi);
    let home = home(&farm);
    let server = Server::start(&home, &[]);
    let add = |title: &str, content: &str| {
        let added = server.call(
            "add_note",
            &json!({"title": title, "content": content}),
            None,
        );
        assert!(added.contains("\"isError\":false"), "{added}");
    };
    let ask = |query: &str| server.call("semantic_search_notes", &json!({"query": query}), None);
    let until = |query: &str, parts: &[&str]| {
        let started = Instant::now();
        loop {
            let answer = ask(query);
            if parts.iter().all(|part| answer.contains(part)) {
                return;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "{parts:?} never came: {answer}"
            );
        }
    };
    add("백김치", "고춧가루를 넣지 않은 김치라 아이들도 잘 먹는다.");
    until(
        "mild food that kids can eat",
        &["백김치", "\"state\":\"complete\""],
    );

    farm.kill();
    add("베란다", "토마토 모종을 심고 물을 주었다.");
    until(
        "토마토",
        &["베란다", "\"state\":\"keyword_only\"", "cannot be reached"],
    );
    let found = server.call("search_notes", &json!({"query": "모종"}), None);
    assert!(found.contains("베란다"), "{found}");
    let status = server.call("index_status", &json!({}), None);
    assert!(status.contains("\"state\":\"away\""), "{status}");

    farm.revive();
    until(
        "growing vegetables on the balcony",
        &["베란다", "\"state\":\"complete\""],
    );
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_of_notes_that_starts_alone_finds_the_embedding_server_later() {
    let mut farm = farm(Api::Tei);
    farm.kill();
    let home = home(&farm);
    let server = Server::start(&home, &[]);
    server.call(
        "add_note",
        &json!({"title": "Bread", "content": "Let the dough rest."}),
        None,
    );
    farm.revive();
    let started = Instant::now();
    loop {
        let query = json!({"query": "반죽은 쉬게 한다", "mode": "vector"});
        let answer = server.call("semantic_search_notes", &query, None);
        if answer.contains("Bread") && answer.contains("\"state\":\"complete\"") {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{answer}");
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn an_import_is_embedded_by_the_server_in_many_requests() {
    let farm = farm(Api::Tei);
    let home = home(&farm);
    for i in 0..50 {
        home.write(
            &format!("in/{i}.md"),
            format!("# Note {i}\n\nThe {i}th line.\n"),
        );
    }
    let folder = home.path("in");
    let run = home.pkm(&["import", folder.to_str().expect("UTF-8")]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("embedded 50 passages in "),
        "{}",
        run.stderr
    );
    assert!(farm.asked().iter().all(|asked| asked.texts.len() <= 32));
    assert!(home.ok(&["doctor"]).ends_with("all is well\n"));
}

#[test]
fn the_key_is_in_no_output() {
    const KEY: &str = "sk-do-not-tell-0123456789";
    let farm = farm(Api::OpenAi);
    let home = home(&farm);
    home.add("a", "b");
    let all = |arguments: &[&str]| {
        let mut command = home.command();
        command
            .env("PKM_EMBEDDER_KEY", KEY)
            .args(["--log", "trace"])
            .args(arguments);
        let run = home.finish(&mut command);
        for output in [&run.stdout, &run.stderr] {
            assert!(!output.contains(KEY), "{arguments:?}: {output}");
        }
        run
    };
    assert_eq!(all(&["search", "--vector", "b"]).code, 0);
    let bearer = format!("Bearer {KEY}");
    assert!(
        farm.asked()
            .iter()
            .all(|asked| asked.authorization.as_ref() == Some(&bearer))
    );
    farm.set(|asked| Reply::Status(401, "", asked.authorization.clone().unwrap_or_default()));
    let status = all(&["status"]);
    assert!(status.stdout.contains("answered 401"), "{}", status.stdout);
    assert!(
        status.stdout.contains("`PKM_EMBEDDER_KEY`"),
        "{}",
        status.stdout
    );
    let config = all(&["config"]);
    assert!(
        config
            .stdout
            .contains("set, not shown  (environment PKM_EMBEDDER_KEY)"),
        "{}",
        config.stdout
    );
    all(&["config", "--json"]);
    all(&["doctor"]);
    let file = home.write("key", format!("{KEY}\n"));
    let run = home.finish(
        home.command()
            .env("PKM_EMBEDDER_KEY_FILE", &file)
            .arg("status"),
    );
    assert!(run.ok().contains("answered 401"));
    assert_eq!(
        farm.asked().last().expect("a request").authorization,
        Some(bearer)
    );
}

#[test]
fn the_server_of_notes_says_at_its_start_that_texts_leave_it() {
    let farm = farm(Api::OpenAi);
    let home = home(&farm);
    let run = home.pkm(&["serve"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("texts of notes and questions") && run.stderr.contains(&farm.url()),
        "{}",
        run.stderr
    );
    let run = Home::new().pkm(&["serve"]);
    assert!(!run.stderr.contains("texts of notes"), "{}", run.stderr);
}

#[test]
fn config_shows_the_server_and_where_each_setting_comes_from() {
    let home = Home::new();
    home.write(
        "config/pkm/config.toml",
        "embedder = \"http\"\nembedder_url = \"http://farm:8080/v1\"\nembedder_key_file = \"key\"\n\
         embedder_languages = [\"en\", \"ko\"]\nmodel = \"m\"\n",
    );
    let run = home.finish(home.command().env("PKM_EMBEDDER_BATCH", "64").args([
        "--embedder-url",
        "http://other:1",
        "config",
    ]));
    insta::assert_snapshot!("config-http", run.ok());
    // Nothing of the server is in the way of whoever does not use it.
    let local = home.ok(&["--embedder", "local", "--model", MODEL, "config"]);
    assert!(!local.contains("embedder_url"), "{local}");
}

#[test]
fn mistakes_in_the_settings_of_the_server_are_named() {
    let check = |settings: &[(&str, &str)], expected: &str| {
        let home = Home::new();
        let mut command = home.command();
        command.env("PKM_EMBEDDER", "http").arg("status");
        command.envs(settings.iter().copied());
        let stderr = home.finish(&mut command).fails(2);
        assert!(stderr.contains(expected), "{settings:?}: {stderr}");
        assert!(!stderr.contains("secret"), "{stderr}");
    };
    let url = ("PKM_EMBEDDER_URL", "http://farm");
    check(&[], "`embedder_url` is missing");
    check(
        &[("PKM_EMBEDDER_URL", "http://me:secret@farm")],
        "`embedder_url` must not hold a name or a password",
    );
    check(&[("PKM_EMBEDDER", "gpu")], "there is no embedder `gpu`");
    check(
        &[url, ("PKM_EMBEDDER_API", "rest")],
        "there is no embedder API `rest`",
    );
    check(
        &[url, ("PKM_EMBEDDER_BATCH", "many")],
        "`PKM_EMBEDDER_BATCH` is `many`; it must be a whole number",
    );
    check(&[url, ("PKM_EMBEDDER_BATCH", "0")], "`embedder_batch` is 0");
}

#[test]
fn what_needs_a_model_of_this_machine_says_that_a_server_embeds() {
    let home = Home::new();
    let run = |arguments: &[&str]| {
        let mut command = home.command();
        command
            .env("PKM_EMBEDDER", "http")
            .env("PKM_EMBEDDER_URL", "http://farm")
            .args(arguments);
        home.finish(&mut command)
    };
    for arguments in [
        &["bench", "embed"][..],
        &["model", "path"],
        &["model", "verify"],
    ] {
        let stderr = run(arguments).fails(2);
        assert!(stderr.contains("a server embeds"), "{stderr}");
    }
    let list = run(&["model", "list", "--json"]).json();
    let models = list["models"].as_array().expect("models");
    assert!(
        models.iter().all(|model| model["in_use"] == false),
        "{list}"
    );
}
