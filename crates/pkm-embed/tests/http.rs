//! The embedder of a server, against a stand-in for one on this machine.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod common;
#[path = "common/farm.rs"]
mod farm;
#[allow(dead_code, reason = "the tests of pulls use the rest")]
#[path = "common/web.rs"]
mod web;

use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, LazyLock};
use std::time::Duration;

use farm::{Api, Asked, Farm, Reply};
use pkm_embed::{
    ApiKey, DeviceChoice, Embedder, Encoder, Error, HttpApi, HttpEmbedder, HttpOptions, Role,
    ServerFault,
};
use serde_json::json;
use sha2::{Digest, Sha256};

static MINILM: LazyLock<Encoder> = LazyLock::new(|| {
    let folder = common::models().join("all-minilm-l6-v2");
    Encoder::load(
        common::manifest("all-minilm-l6-v2"),
        &folder,
        DeviceChoice::Cpu,
    )
    .unwrap()
});

/// A vector of `dim` numbers that depends on the text alone.
fn vector(text: &str, dim: usize) -> Vec<f32> {
    let mut bytes = Vec::new();
    while bytes.len() < dim {
        bytes.extend(Sha256::digest(format!("{}{text}", bytes.len())));
    }
    let number = |byte: &u8| f32::from(*byte) / 25.6 - 5.0;
    bytes[..dim].iter().map(number).collect()
}

fn vectors(asked: &Asked) -> Reply {
    Reply::Vectors(asked.texts.iter().map(|text| vector(text, 16)).collect())
}

fn options(farm: &Farm) -> HttpOptions {
    HttpOptions {
        model: Some("stand-in".to_owned()),
        ..HttpOptions::new(farm.url())
    }
}

fn connect(farm: &Farm) -> HttpEmbedder {
    HttpEmbedder::connect(options(farm)).unwrap()
}

/// A server that is well when it is connected to, and then answers by `script`.
fn connected(
    api: Api,
    options: impl FnOnce(HttpOptions) -> HttpOptions,
    script: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
) -> (Farm, HttpEmbedder) {
    let farm = Farm::start(api, vectors);
    let embedder = HttpEmbedder::connect(options(self::options(&farm))).unwrap();
    farm.set(script);
    (farm, embedder)
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn check_vectors(embedder: &HttpEmbedder, texts: &[&str]) {
    let embedded = embedder.embed(texts, Role::Passage).unwrap();
    assert_eq!(embedded.vectors.len(), texts.len());
    for (text, found) in texts.iter().zip(&embedded.vectors) {
        assert!(cosine(found, &vector(text, 16)) > 0.9999, "{text}");
        let length = found.iter().map(|value| value * value).sum::<f32>().sqrt();
        assert!((length - 1.0).abs() < 1e-4, "{length}");
    }
}

fn words(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", words(source)),
        None => error.to_string(),
    }
}

/// A fault of the server's, not of the texts, with these words in its message.
#[track_caller]
fn check_away(error: &Error, expected: &[&str]) {
    assert!(error.is_transient(), "{error:?}");
    let error = words(error);
    for part in expected {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn the_vectors_are_those_of_the_model_that_the_server_runs() {
    for api in [Api::OpenAi, Api::Tei] {
        let farm = Farm::start(api, |asked| {
            let texts: Vec<&str> = asked.texts.iter().map(String::as_str).collect();
            Reply::Vectors(MINILM.embed(&texts, Role::Passage).unwrap().vectors)
        });
        let embedder = HttpEmbedder::connect(HttpOptions {
            batch: 4,
            ..options(&farm)
        })
        .unwrap();
        assert_eq!(embedder.card().dim, MINILM.card().dim);
        assert_eq!(embedder.card().device, farm.url());
        let texts = [
            "a note about a cat",
            "\u{1112}\u{1161}\u{11ab}글 메모 ",
            "bread",
            "",
            "the fifth",
            "the sixth",
            "the seventh",
        ];
        for role in [Role::Query, Role::Passage] {
            let found = embedder.embed(&texts, role).unwrap();
            let expected = MINILM.embed(&texts, role).unwrap();
            for ((text, a), b) in texts.iter().zip(&found.vectors).zip(&expected.vectors) {
                assert!(cosine(a, b) > 0.9999, "{api:?} {text}");
            }
        }
    }
}

#[test]
fn texts_are_cleaned_prefixed_and_shared_out_with_the_probe_in_every_request() {
    let farm = Farm::start(Api::OpenAi, vectors);
    let mut options = HttpOptions {
        batch: 8,
        n_requests: 2,
        ..options(&farm)
    };
    options.prefixes.query = "query: ".to_owned();
    options.prefixes.passage = "passage: ".to_owned();
    let embedder = HttpEmbedder::connect(options).unwrap();
    let probe = farm.asked()[0].texts.clone();
    assert_eq!(probe.len(), 1);
    let texts: Vec<String> = (0..20).map(|i| format!(" text {i}\n")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    embedder.embed(&texts, Role::Passage).unwrap();
    let asked = farm.asked();
    let mut seen = HashSet::new();
    for Asked { texts, body, .. } in &asked[1..] {
        assert!(texts.len() <= 8, "{texts:?}");
        assert_eq!(texts.last(), Some(&probe[0]));
        seen.extend(texts[..texts.len() - 1].iter().cloned());
        assert_eq!(body["model"], "stand-in");
        assert_eq!(body["encoding_format"], "float");
    }
    let expected: HashSet<String> = (0..20).map(|i| format!("passage: text {i}")).collect();
    assert_eq!(seen, expected);
    embedder.embed(&["why?"], Role::Query).unwrap();
    let last = farm.asked().pop().unwrap();
    assert_eq!(last.texts, ["query: why?", &probe[0]]);
    assert_eq!(embedder.embed(&[], Role::Query).unwrap().vectors.len(), 0);
}

#[test]
fn a_server_of_tei_says_what_it_runs_and_how_much_it_takes() {
    let farm = Farm::start(Api::Tei, vectors);
    farm.set_info("max_input_length", json!(128));
    farm.set_info("max_client_batch_size", json!(3));
    let embedder = HttpEmbedder::connect(HttpOptions::new(farm.url())).unwrap();
    let card = embedder.card();
    assert_eq!((card.name.as_str(), card.window), ("stand-in", 128));
    check_vectors(&embedder, &["a", "b", "c", "d", "e"]);
    for Asked { texts, body, .. } in farm.asked() {
        assert!(texts.len() <= 3);
        assert_eq!(
            (&body["truncate"], &body["normalize"]),
            (&json!(true), &json!(true))
        );
    }
    farm.set_info("max_client_batch_size", json!(1));
    check_vectors(&connect(&farm), &["a", "b"]);
    let other = HttpOptions {
        model: Some("another".to_owned()),
        ..HttpOptions::new(farm.url())
    };
    let error = HttpEmbedder::connect(other).unwrap_err();
    check_away(
        &error,
        &["runs the model `stand-in`", "`model` is `another`"],
    );
}

#[test]
fn the_api_is_found_out_by_asking_unless_it_is_said() {
    let openai = Farm::start(Api::OpenAi, vectors);
    check_vectors(&connect(&openai), &["a"]);
    let error = HttpEmbedder::connect(HttpOptions::new(openai.url())).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Setting {
                setting: "model",
                ..
            }
        ),
        "{error}"
    );
    assert!(!error.is_transient());
    let said = |api| HttpOptions {
        api: Some(api),
        ..options(&openai)
    };
    let error = HttpEmbedder::connect(said(HttpApi::Tei)).unwrap_err();
    check_away(&error, &["answered 404", "`embedder_api`"]);
    let tei = Farm::start(Api::Tei, vectors);
    check_vectors(&connect(&tei), &["a"]);
}

#[test]
fn many_requests_run_at_once_and_no_more_than_are_wanted() {
    let barrier = Arc::new(Barrier::new(3));
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (_farm, embedder) = connected(
        Api::OpenAi,
        |options| HttpOptions {
            n_requests: 3,
            batch: 2,
            ..options
        },
        {
            let most = Arc::clone(&most);
            move |asked| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Nobody gets on before there are three.
                barrier.wait();
                now.fetch_sub(1, Ordering::SeqCst);
                vectors(asked)
            }
        },
    );
    check_vectors(&embedder, &["a", "b", "c", "d", "e", "f"]);
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[test]
fn what_may_pass_is_tried_again() {
    for (what, n_times) in [("429", 3), ("500", 3), ("broken", 2), ("nonsense", 2)] {
        let n_asked = AtomicUsize::new(0);
        let (farm, embedder) = connected(
            Api::OpenAi,
            |options| options,
            move |asked| {
                if n_asked.fetch_add(1, Ordering::SeqCst) >= n_times {
                    return vectors(asked);
                }
                match what {
                    "429" => Reply::Status(429, "Retry-After: 0\r\n", "slow down".to_owned()),
                    "500" => Reply::Status(500, "", String::new()),
                    "broken" => Reply::Broken,
                    _ => Reply::Body(b"<html>".to_vec()),
                }
            },
        );
        check_vectors(&embedder, &["a", "b"]);
        // One request to connect, and in it the same texts each time.
        let asked = farm.asked();
        assert!(asked.len() > n_times + 1, "{what}");
        assert!(asked.iter().skip(1).all(|asked| asked.texts.len() <= 3));
    }
}

#[test]
fn a_server_that_asks_for_a_long_rest_is_not_waited_for() {
    let (farm, embedder) = connected(
        Api::OpenAi,
        |options| options,
        |_| {
            Reply::Status(
                429,
                "Retry-After: 3600\r\n",
                r#"{"error": {"message": "quota"}}"#.to_owned(),
            )
        },
    );
    let error = embedder.embed(&["a"], Role::Passage).unwrap_err();
    check_away(&error, &["answered 429: quota", "`embedder_requests`"]);
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3600)));
    assert_eq!(farm.asked().len(), 2);
}

#[test]
fn tries_end_and_the_error_says_what_to_do() {
    let check = |reply: fn() -> Reply, expected: &[&str]| {
        let few = |options| HttpOptions {
            n_retries: 0,
            timeout: Duration::from_millis(500),
            ..options
        };
        let (_farm, embedder) = connected(Api::OpenAi, few, move |_| reply());
        for role in [Role::Query, Role::Passage] {
            let error = embedder.embed(&["a note"], role).unwrap_err();
            check_away(&error, expected);
            assert!(!words(&error).contains("a note"), "{error}");
        }
    };
    check(
        || Reply::Silence,
        &["gave no answer within 0.5 s", "`embedder_timeout`"],
    );
    check(|| Reply::Broken, &["cannot be reached"]);
    check(|| Reply::Endless, &["longer than", "bytes"]);
    check(
        || Reply::Body(b"nonsense".to_vec()),
        &["not JSON", "`embedder_api`"],
    );
    check(
        || Reply::Body(b"{\"error\": 3}".to_vec()),
        &["another shape"],
    );
    check(
        || Reply::Vectors(vec![vec![1.0, 2.0]; 7]),
        &["7 vectors for"],
    );
    check(|| Reply::Vectors(vec![]), &["0 vectors for"]);
    check(
        || Reply::Status(503, "", "loading".to_owned()),
        &["answered 503: loading"],
    );
    check(
        || Reply::Status(401, "", "who?".to_owned()),
        &["answered 401; ", "`embedder_key_file`"],
    );
    check(
        || Reply::Status(404, "", String::new()),
        &["answered 404", "`embedder_url`"],
    );
}

#[test]
fn vectors_of_another_length_are_refused() {
    let (_farm, embedder) = connected(
        Api::Tei,
        |options| HttpOptions {
            n_retries: 0,
            ..options
        },
        |asked| Reply::Vectors(asked.texts.iter().map(|text| vector(text, 8)).collect()),
    );
    let error = embedder.embed(&["a"], Role::Passage).unwrap_err();
    check_away(&error, &["a vector of 8 dimensions, expected 16"]);
    let farm = Farm::start(Api::OpenAi, vectors);
    let wanted = HttpOptions {
        dim: Some(8),
        ..options(&farm)
    };
    let error = HttpEmbedder::connect(wanted).unwrap_err();
    check_away(
        &error,
        &[
            "a vector of 16 dimensions, expected 8",
            "`embedder_dimension`",
        ],
    );
    assert_eq!(farm.asked()[0].body["dimensions"], 8);
}

#[test]
fn a_vector_that_must_not_be_stored_is_its_texts_fault() {
    for bad in [
        vec![f32::NAN; 16],
        vec![0.0; 16],
        vec![0.25; 16],
        [vec![f32::MAX; 8], vec![0.0; 8]].concat(),
    ] {
        let (_farm, embedder) = connected(
            Api::OpenAi,
            |options| options,
            move |asked| {
                let of = |text: &String| {
                    if text.contains("bad") {
                        bad.clone()
                    } else {
                        vector(text, 16)
                    }
                };
                Reply::Vectors(asked.texts.iter().map(of).collect())
            },
        );
        let error = embedder.embed(&["good", "bad"], Role::Passage).unwrap_err();
        assert!(matches!(error, Error::BadVector { .. }), "{error}");
        assert!(!error.is_transient());
        check_vectors(&embedder, &["good"]);
    }
}

#[test]
fn a_text_that_the_server_cannot_take_is_told_from_a_server_that_is_not_well() {
    let few = |options| HttpOptions {
        n_retries: 1,
        ..options
    };
    let poison = |asked: &Asked| match asked.texts.iter().any(|text| text.contains("poison")) {
        true => Reply::Status(500, "", r#"{"error": "NaN"}"#.to_owned()),
        false => vectors(asked),
    };
    let (farm, embedder) = connected(Api::OpenAi, few, poison);
    let texts = ["good", "poison"];
    let error = embedder.embed(&texts, Role::Passage).unwrap_err();
    let Error::Inference { n_texts: 2, .. } = error else {
        panic!("{error}");
    };
    assert!(
        words(&error).contains("answered 500: NaN"),
        "{}",
        words(&error)
    );
    // Nobody gives up a question: it goes by words.
    check_away(
        &embedder.embed(&texts[1..], Role::Query).unwrap_err(),
        &["answered 500"],
    );
    check_vectors(&embedder, &["good"]);
    farm.set(|_| Reply::Status(500, "", String::new()));
    check_away(
        &embedder.embed(&texts, Role::Passage).unwrap_err(),
        &["answered 500"],
    );
}

#[test]
fn another_model_under_the_same_name_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let farm = Farm::start(Api::Tei, vectors);
    let options = HttpOptions {
        known_models: Some(dir.path().join("models.json")),
        ..options(&farm)
    };
    let first = HttpEmbedder::connect(options.clone()).unwrap();
    farm.set(|asked| {
        let other = asked
            .texts
            .iter()
            .map(|text| vector(&format!("other {text}"), 16));
        Reply::Vectors(other.collect())
    });
    let error = first.embed(&["a"], Role::Passage).unwrap_err();
    check_away(&error, &["another model", "start `pkm` anew"]);
    let Error::Server {
        fault: ServerFault::OtherModel { likeness },
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert!(likeness < 0.9);
    let fingerprint = |embedder: &HttpEmbedder| embedder.card().fingerprint.clone();
    let second = HttpEmbedder::connect(options.clone()).unwrap();
    assert_ne!(fingerprint(&second), fingerprint(&first));
    second.embed(&["a"], Role::Passage).unwrap();
    // Back to the former one, on hardware that rounds otherwise.
    farm.set(|asked| {
        let mut found: Vec<_> = asked.texts.iter().map(|text| vector(text, 16)).collect();
        found.iter_mut().for_each(|vector| vector[3] += 0.01);
        Reply::Vectors(found)
    });
    let third = HttpEmbedder::connect(options).unwrap();
    assert_eq!(fingerprint(&third), fingerprint(&first));
}

#[test]
fn the_fingerprint_stands_for_what_decides_a_vector_and_not_for_the_address() {
    let (farm, moved) = (
        Farm::start(Api::Tei, vectors),
        Farm::start(Api::Tei, vectors),
    );
    let fingerprint = |farm: &Farm, change: &dyn Fn(&mut HttpOptions)| {
        let mut options = options(farm);
        change(&mut options);
        HttpEmbedder::connect(options)
            .unwrap()
            .card()
            .fingerprint
            .clone()
    };
    let usual = fingerprint(&farm, &|_| {});
    assert_eq!(usual.len(), 32);
    assert_eq!(fingerprint(&moved, &|_| {}), usual);
    assert_eq!(fingerprint(&farm, &|options| options.batch = 2), usual);
    let openai = Farm::start(Api::OpenAi, vectors);
    let mut all = HashSet::from([usual, fingerprint(&openai, &|_| {})]);
    let mut check = |farm: &Farm, change: &dyn Fn(&mut HttpOptions)| {
        assert!(all.insert(fingerprint(farm, change)));
    };
    check(&openai, &|options| options.model = Some("other".to_owned()));
    check(&farm, &|options| {
        options.prefixes.query = "query: ".to_owned()
    });
    check(&farm, &|options| {
        options.prefixes.passage = "query: ".to_owned()
    });
    check(&farm, &|options| options.window = 64);
    moved.set_info("model_sha", json!("fedcba9876543210"));
    check(&moved, &|_| {});
    moved.set_info("model_type", json!({"embedding": {"pooling": "cls"}}));
    check(&moved, &|_| {});
    moved.set(|asked| Reply::Vectors(asked.texts.iter().map(|text| vector(text, 32)).collect()));
    check(&moved, &|_| {});
}

#[test]
fn a_text_over_the_window_is_cut_where_the_server_would_refuse_it() {
    let long = "낱말 word ".repeat(400);
    let few = |options| HttpOptions {
        window: 100,
        ..options
    };
    let (farm, embedder) = connected(Api::OpenAi, few, vectors);
    let embedded = embedder.embed(&["short", &long], Role::Passage).unwrap();
    assert_eq!(embedded.n_cut, 1);
    let asked = farm.asked();
    let mut sent = asked.iter().flat_map(|asked| &asked.texts);
    let sent = sent.find(|text| text.starts_with("낱말")).unwrap();
    assert!(long.starts_with(sent.as_str()));
    assert!(embedder.count_tokens(sent) <= 100);
    // Not much more is taken away than it must be.
    let n_chars = sent.chars().count() + 4;
    let more: String = long.chars().take(n_chars).collect();
    assert!(embedder.count_tokens(&more) > 100);

    let (farm, embedder) = connected(Api::Tei, few, vectors);
    assert_eq!(embedder.embed(&[&long], Role::Passage).unwrap().n_cut, 1);
    assert_eq!(farm.asked()[1].texts[0], long.trim());
}

#[test]
fn tokens_are_counted_with_a_tokenizer_where_there_is_one() {
    let tokenizer = common::models().join("all-minilm-l6-v2/tokenizer.json");
    let farm = Farm::start(Api::OpenAi, vectors);
    let with = |tokenizer| {
        HttpEmbedder::connect(HttpOptions {
            tokenizer,
            window: 64,
            ..options(&farm)
        })
    };
    let exact = with(Some(tokenizer)).unwrap();
    for text in ["", "a note on tokenization", "  blanks \n"] {
        assert_eq!(
            exact.count_tokens(text),
            MINILM.count_tokens(text),
            "{text}"
        );
    }
    let long = "tokenization ".repeat(100);
    assert_eq!(exact.embed(&[&long], Role::Passage).unwrap().n_cut, 1);
    let sent = farm.asked().pop().unwrap().texts.swap_remove(0);
    assert_eq!(MINILM.count_tokens(&sent), 64);
    let estimated = with(None).unwrap();
    assert!(estimated.count_tokens("회의에서 인증을 다시 설계하기로 했다.") > 15);
    let error = with(Some("/nowhere/tokenizer.json".into())).unwrap_err();
    assert!(words(&error).contains("/nowhere/tokenizer.json"), "{error}");
    assert!(!error.is_transient());
}

#[test]
fn the_key_is_sent_and_never_told() {
    let key = "sk-do-not-tell-0123456789";
    let farm = Farm::start(Api::OpenAi, vectors);
    let options = HttpOptions {
        key: Some(ApiKey::new(&format!("{key}\n"))),
        n_retries: 0,
        ..options(&farm)
    };
    assert!(!format!("{options:?}").contains(key));
    let embedder = HttpEmbedder::connect(options).unwrap();
    assert_eq!(farm.asked()[0].authorization, Some(format!("Bearer {key}")));
    assert!(!format!("{embedder:?}").contains(key));
    for status in [400, 401, 403, 500] {
        farm.set(move |asked| {
            let heard = asked.authorization.clone().unwrap_or_default();
            Reply::Status(status, "", format!("{{\"error\": \"what is {heard}?\"}}"))
        });
        let error = embedder.embed(&["a"], Role::Passage).unwrap_err();
        for told in [words(&error), format!("{error:?}")] {
            assert!(!told.contains(key), "{told}");
            assert!(told.contains(&status.to_string()), "{told}");
        }
    }
    let unusable = HttpOptions {
        key: Some(ApiKey::new("ключ")),
        ..self::options(&farm)
    };
    let error = HttpEmbedder::connect(unusable).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Setting {
                setting: "embedder_key",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn texts_do_not_follow_a_server_that_sends_them_elsewhere() {
    let elsewhere = Farm::start(Api::OpenAi, vectors);
    let (_farm, embedder) = connected(Api::OpenAi, |options| options, {
        let header: &'static str =
            Box::leak(format!("Location: {}/v1/embeddings\r\n", elsewhere.url()).into_boxed_str());
        move |_| Reply::Status(307, header, String::new())
    });
    let error = embedder.embed(&["a"], Role::Passage).unwrap_err();
    check_away(&error, &["answered 307", "moved"]);
    assert_eq!(elsewhere.asked().len(), 0);
}

#[test]
fn a_server_that_is_not_there_is_named_and_one_that_comes_back_is_used() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = HttpEmbedder::connect(HttpOptions::new(url.clone())).unwrap_err();
    check_away(
        &error,
        &[&url, "cannot be reached", "refused", "`embedder_url`"],
    );
    let few = |options| HttpOptions {
        n_retries: 1,
        ..options
    };
    let (mut farm, embedder) = connected(Api::OpenAi, few, vectors);
    farm.kill();
    for role in [Role::Query, Role::Passage] {
        check_away(&embedder.embed(&["a"], role).unwrap_err(), &[&farm.url()]);
    }
    farm.revive();
    check_vectors(&embedder, &["a"]);
}

#[test]
fn settings_that_cannot_be_used_are_named() {
    let check = |setting: &str, change: &dyn Fn(&mut HttpOptions)| {
        let mut options = HttpOptions::new("http://127.0.0.1:1");
        change(&mut options);
        let error = options.check().unwrap_err();
        let Error::Setting { setting: found, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(found, setting);
    };
    check("embedder_url", &|options| options.url.clear());
    check("embedder_url", &|options| options.url = "farm".to_owned());
    check("embedder_dimension", &|options| options.dim = Some(1));
    check("embedder_window", &|options| options.window = 0);
    check("embedder_batch", &|options| options.batch = 0);
    check("embedder_requests", &|options| options.n_requests = 0);
    check("embedder_timeout", &|options| {
        options.timeout = Duration::ZERO
    });
}
