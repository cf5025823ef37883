//! The encoder with real models.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod common;

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use common::{cosine, manifest};
use pkm_embed::{DeviceChoice, Embedder, Encoder, EncoderOptions, Kernel, Precision, Role};
use serde::Deserialize;

static E5: LazyLock<Encoder> = LazyLock::new(|| load("multilingual-e5-small-q4"));
static MINILM: LazyLock<Encoder> = LazyLock::new(|| load("all-minilm-l6-v2"));

/// Lowest cosine to a vector that must be the same but for rounding, to bf16 where it is used.
const SAME: f32 = 0.9998;
/// The same in f32.
const SAME_IN_F32: f32 = 0.9999;

#[derive(Deserialize)]
struct Text {
    name: String,
    text: String,
}

#[derive(Deserialize)]
struct Reference {
    query: Option<Vec<Vec<f32>>>,
    passage: Vec<Vec<f32>>,
}

/// Loads a model, or fails with what to do: a test that skips itself proves nothing.
fn load(name: &str) -> Encoder {
    let folder = common::models().join(name);
    assert!(
        folder.join("config.json").exists(),
        "no model in {}: run scripts/fetch-model {name}",
        folder.display()
    );
    Encoder::load(manifest(name), &folder, DeviceChoice::Cpu).unwrap()
}

fn texts() -> Vec<Text> {
    serde_json::from_str(include_str!("reference/texts.json")).unwrap()
}

fn embed(encoder: &Encoder, texts: &[&str]) -> Vec<Vec<f32>> {
    let embedded = encoder.embed(texts, Role::Passage).unwrap();
    assert_eq!(embedded.vectors.len(), texts.len());
    for vector in &embedded.vectors {
        let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        assert!((norm - 1.0).abs() < 1e-4, "length {norm}");
        assert!(vector.iter().any(|value| *value != vector[0]), "constant");
    }
    embedded.vectors
}

fn check_reference(encoder: &Encoder, reference: &str) {
    let reference: Reference = serde_json::from_str(reference).unwrap();
    let query = reference.query.as_ref().unwrap_or(&reference.passage);
    let same = match encoder.card().precision {
        Some(Precision::F32) => SAME_IN_F32,
        _ => SAME,
    };
    for (role, expected) in [(Role::Query, query), (Role::Passage, &reference.passage)] {
        let texts = texts();
        let plain: Vec<&str> = texts.iter().map(|text| &text.text[..]).collect();
        let found = encoder.embed(&plain, role).unwrap().vectors;
        assert_eq!(found.len(), expected.len());
        for ((text, found), expected) in texts.iter().zip(&found).zip(expected) {
            let cosine = cosine(found, expected);
            assert!(
                cosine >= same,
                "`{}` as {role:?}: cosine {cosine}",
                text.name
            );
        }
    }
}

#[test]
fn the_quantized_multilingual_model_gives_the_vectors_of_sentence_transformers() {
    check_reference(&E5, include_str!("reference/multilingual-e5-small-q4.json"));
}

#[test]
fn the_english_model_gives_the_vectors_of_sentence_transformers() {
    check_reference(&MINILM, include_str!("reference/all-minilm-l6-v2.json"));
}

fn load_with(name: &str, options: &EncoderOptions) -> Encoder {
    Encoder::load_with(manifest(name), &common::models().join(name), options).unwrap()
}

#[test]
fn every_kernel_of_this_processor_gives_the_vectors_of_sentence_transformers() {
    for kernel in Kernel::usable() {
        let options = EncoderOptions {
            device: DeviceChoice::Cpu,
            kernel: Some(kernel),
            ..EncoderOptions::default()
        };
        let encoder = load_with("all-minilm-l6-v2", &options);
        assert_eq!(encoder.kernel().map(|(kernel, _)| kernel), Some(kernel));
        check_reference(&encoder, include_str!("reference/all-minilm-l6-v2.json"));
    }
}

#[test]
fn a_kernel_that_the_processor_cannot_run_is_refused_by_name() {
    let others = Kernel::ALL.into_iter().filter(|kernel| !kernel.is_usable());
    let mut n_refused = 0;
    for kernel in others {
        let options = EncoderOptions {
            kernel: Some(kernel),
            ..EncoderOptions::default()
        };
        let name = "all-minilm-l6-v2";
        let loaded = Encoder::load_with(manifest(name), &common::models().join(name), &options);
        let error = loaded.unwrap_err().to_string();
        assert!(error.contains(&format!("`{kernel}`")), "{error}");
        n_refused += 1;
    }
    assert!(n_refused > 0, "no processor has both AVX and NEON");
}

#[test]
fn the_precision_asked_for_is_the_one_that_runs() {
    let precision = |precision| {
        let options = EncoderOptions {
            device: DeviceChoice::Cpu,
            precision,
            ..EncoderOptions::default()
        };
        let name = "all-minilm-l6-v2";
        Encoder::load_with(manifest(name), &common::models().join(name), &options)
    };
    let (f32, auto) = (precision(Precision::F32), precision(Precision::Auto));
    let (f32, auto) = (f32.unwrap(), auto.unwrap());
    assert_eq!(f32.card().precision, Some(Precision::F32));
    // A folder of notes may be opened on another processor: the vectors must go together.
    assert_eq!(f32.card().fingerprint, auto.card().fingerprint);
    if Kernel::Amx.is_usable() {
        assert_eq!(auto.card().precision, Some(Precision::Bf16));
        let bf16 = precision(Precision::Bf16).unwrap();
        assert_eq!(bf16.card(), auto.card());
        let texts = texts();
        let texts: Vec<&str> = texts.iter().map(|text| &text.text[..]).collect();
        for (bf16, f32) in embed(&bf16, &texts).iter().zip(&embed(&f32, &texts)) {
            assert!(cosine(bf16, f32) > 0.9998, "{}", cosine(bf16, f32));
        }
    } else {
        assert_eq!(auto.card().precision, Some(Precision::F32));
        let error = precision(Precision::Bf16).unwrap_err().to_string();
        assert!(error.contains("`bf16`") && error.contains("AMX"), "{error}");
    }
}

#[test]
fn the_number_of_threads_changes_neither_vectors_nor_order() {
    let texts = texts();
    let texts: Vec<&str> = texts.iter().map(|text| &text.text[..]).collect();
    let embed_on = |n_threads| {
        let options = EncoderOptions {
            device: DeviceChoice::Cpu,
            threads: NonZeroUsize::new(n_threads),
            ..EncoderOptions::default()
        };
        let encoder = load_with("all-minilm-l6-v2", &options);
        assert_eq!(encoder.n_threads(), n_threads);
        embed(&encoder, &texts)
    };
    assert_eq!(embed_on(1), embed_on(3));
}

#[test]
fn a_batch_gives_what_each_text_gives_alone_in_the_order_of_the_texts() {
    let texts = texts();
    // The short ones again after the long ones, so that batches of several texts, of one text and
    // of equal texts occur.
    let mixed: Vec<&str> = texts
        .iter()
        .chain(&texts[..20])
        .map(|text| &text.text[..])
        .collect();
    for encoder in [&*E5, &*MINILM] {
        let together = embed(encoder, &mixed);
        let reversed: Vec<&str> = mixed.iter().rev().copied().collect();
        let backwards = embed(encoder, &reversed);
        for (idx, text) in mixed.iter().enumerate().take(texts.len()) {
            let alone = &embed(encoder, &[text])[0];
            for other in [&together[idx], &backwards[mixed.len() - 1 - idx]] {
                let cosine = cosine(alone, other);
                assert!(cosine >= SAME, "{text:.60}: cosine {cosine}");
            }
        }
        for (first, again) in together.iter().zip(&together[texts.len()..]) {
            assert!(cosine(first, again) >= SAME);
        }
    }
}

#[test]
fn no_text_embeds_to_no_vector() {
    let embedded = E5.embed(&[], Role::Query).unwrap();
    assert_eq!(
        (embedded.vectors.len(), embedded.n_cut, embedded.n_tokens),
        (0, 0, 0)
    );
}

/// A text whose passage has exactly `n_tokens` tokens.
fn text_of(encoder: &Encoder, n_tokens: usize) -> String {
    let mut text = String::from("a");
    while encoder.count_tokens(&text) < n_tokens {
        text.push_str(" a");
    }
    assert_eq!(encoder.count_tokens(&text), n_tokens);
    text
}

#[test]
fn a_text_is_cut_only_when_it_is_longer_than_the_window() {
    for encoder in [&*E5, &*MINILM] {
        let window = encoder.card().window;
        let full = text_of(encoder, window);
        let over = format!("{full} zebra");
        let short = text_of(encoder, window - 1);
        let check = |text: &str, n_cut, n_tokens| {
            let embedded = encoder.embed(&[text], Role::Passage).unwrap();
            assert_eq!((embedded.n_cut, embedded.n_tokens), (n_cut, n_tokens));
            embedded.vectors.into_iter().next().unwrap()
        };
        check(&short, 0, window - 1);
        let whole = check(&full, 0, window);
        let cut = check(&over, 1, window);
        // The cut keeps the end mark, so that what is left is the full text.
        assert!(cosine(&whole, &cut) >= SAME);
    }
}

#[test]
fn what_was_cut_is_counted_text_by_text() {
    let over = format!("{} b", text_of(&E5, E5.card().window));
    let embedded = E5.embed(&[&over, "short", &over], Role::Passage).unwrap();
    assert_eq!(embedded.n_cut, 2);
}

#[test]
fn texts_that_break_other_encoders_get_vectors_of_their_own() {
    let korean = |topic: &str| format!("{topic}에 대해 길게 적어 둔 메모입니다. ").repeat(120);
    let links = |site: &str| {
        (0..200)
            .map(|n| format!("[{site} {n}](https://{site}.example/{n}/?q={n}) "))
            .collect()
    };
    let cases: Vec<(&str, String)> = vec![
        ("long korean", korean("김치 담그는 법")),
        ("another long korean", korean("자바 가비지 컬렉션")),
        ("link-heavy", links("kitchen")),
        ("another link-heavy", links("compiler")),
        ("no space, latin", "abcdefghij".repeat(10_000)),
        ("no space, other latin", "zyxwvuts".repeat(12_500)),
        ("no space, hangul", "가나다라마".repeat(20_000)),
        ("emoji", "🍋".to_owned()),
        ("other emoji", "👨‍👩‍👧‍👦🇰🇷".to_owned()),
        ("empty", String::new()),
        ("controls", "\u{0}\u{7}\u{feff}".to_owned()),
    ];
    let texts: Vec<&str> = cases.iter().map(|(_, text)| &text[..]).collect();
    let vectors = embed(&E5, &texts);
    for (a, (name, _)) in cases.iter().enumerate() {
        for (b, (other, _)) in cases.iter().enumerate().take(a) {
            // Controls vanish in the tokenizer; what is left is an empty text.
            if (*name, *other) == ("controls", "empty") {
                continue;
            }
            let cross = cosine(&vectors[a], &vectors[b]);
            assert!(cross < 0.999, "`{name}` and `{other}`: cosine {cross}");
        }
    }
    let again = embed(&E5, &[texts[1]]);
    assert!(cosine(&vectors[1], &again[0]) >= SAME);
}

#[test]
fn words_too_long_for_the_english_tokenizer_are_not_all_the_same() {
    let (a, b) = ("abcdefghij".repeat(10_000), "zyxwvuts".repeat(12_500));
    let vectors = embed(&MINILM, &[&a, &b, "a plain sentence about boats"]);
    assert!(cosine(&vectors[0], &vectors[1]) < 0.99);
    assert!(MINILM.count_tokens(&a) > MINILM.card().window);
}

#[test]
fn blanks_of_any_kind_are_an_empty_text() {
    for encoder in [&*E5, &*MINILM] {
        let vectors = embed(encoder, &["", " ", "\n\t \u{a0}\u{3000}"]);
        assert_eq!(vectors[0], vectors[1]);
        assert_eq!(vectors[0], vectors[2]);
    }
}

#[test]
fn decomposed_and_composed_text_have_the_same_vector() {
    let composed = "한국어로 적은 회의록과 café 메모";
    let decomposed: String = unicode_normalization::UnicodeNormalization::nfd(composed).collect();
    assert_ne!(composed, decomposed);
    for encoder in [&*E5, &*MINILM] {
        let vectors = embed(encoder, &[composed, &decomposed]);
        assert_eq!(vectors[0], vectors[1]);
        assert_eq!(
            encoder.count_tokens(composed),
            encoder.count_tokens(&decomposed)
        );
    }
}

#[test]
fn meaning_crosses_languages() {
    let passages = embed(
        &E5,
        &[
            "We moved the database login from passwords to signed tokens.",
            "Simmer the kimchi stew for twenty minutes and add tofu.",
            "The ferry to the island leaves at nine in the morning.",
        ],
    );
    for (question, answer) in [
        ("데이터베이스 인증을 어떻게 바꿨지?", 0),
        ("김치찌개 끓이는 법", 1),
        ("섬으로 가는 배 시간", 2),
    ] {
        let query = &E5.embed(&[question], Role::Query).unwrap().vectors[0];
        let nearest = (0..passages.len())
            .max_by(|a, b| cosine(query, &passages[*a]).total_cmp(&cosine(query, &passages[*b])));
        assert_eq!(nearest, Some(answer), "{question}");
    }
}

#[test]
fn a_query_and_a_passage_are_embedded_differently_where_the_model_wants_it() {
    let as_both = |encoder: &Encoder| {
        let query = encoder
            .embed(&["vector search"], Role::Query)
            .unwrap()
            .vectors;
        let passage = encoder
            .embed(&["vector search"], Role::Passage)
            .unwrap()
            .vectors;
        cosine(&query[0], &passage[0])
    };
    assert!(as_both(&E5) < 0.999);
    assert!(as_both(&MINILM) > SAME);
}

#[test]
fn the_fingerprints_under_which_users_have_vectors_stay_as_they_are() {
    // A new one would make everybody embed everything again.
    assert_eq!(
        MINILM.card().fingerprint,
        "994b1a5d1ade8c3b5c095deb92c30d32"
    );
    assert_eq!(E5.card().fingerprint, "8558798e65378ed666dd6bd8f0cab509");
}

#[test]
fn the_card_tells_models_and_settings_apart() {
    assert_ne!(E5.card().fingerprint, MINILM.card().fingerprint);
    assert_eq!(E5.card().fingerprint.len(), 32);
    assert_eq!(
        (E5.card().dim, E5.card().window, &E5.card().device[..]),
        (384, 512, "cpu")
    );
    let mut other = manifest("all-minilm-l6-v2").clone();
    other.prefixes.query = "query: ".to_owned();
    let folder = common::models().join(&other.name);
    let other = Encoder::load(&other, &folder, DeviceChoice::Auto).unwrap();
    assert_ne!(other.card().fingerprint, MINILM.card().fingerprint);
}

#[test]
fn threads_that_embed_at_once_do_not_disturb_each_other() {
    let texts = texts();
    let texts: Vec<&str> = texts[..20].iter().map(|text| &text.text[..]).collect();
    let alone = embed(&E5, &texts);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (found, expected) in embed(&E5, &texts).iter().zip(&alone) {
                    assert!(cosine(found, expected) >= SAME);
                }
            });
        }
    });
}
