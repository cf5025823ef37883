//! Every architecture, by models with random weights, against the vectors of the Python originals.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod common;

use std::fs;

use common::{cosine, tiny_folder, tiny_manifest};
use pkm_embed::{DeviceChoice, Embedder, Encoder, EncoderOptions, Kernel, Role};
use serde::Deserialize;

/// Lowest cosine to a vector that must be the same but for rounding.
const SAME: f32 = 0.99999;

const ALL: [&str; 6] = [
    "tiny-bert",
    "tiny-xlm-roberta",
    "tiny-modernbert",
    "tiny-qwen3",
    "tiny-static",
    "tiny-static-mapped",
];

#[derive(Deserialize)]
struct Reference {
    texts: Vec<String>,
    query: Vec<Vec<f32>>,
    passage: Vec<Vec<f32>>,
}

impl Reference {
    fn of(name: &str) -> Reference {
        let json = fs::read_to_string(tiny_folder(name).join("reference.json")).unwrap();
        serde_json::from_str(&json).unwrap()
    }

    fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(String::as_str).collect()
    }
}

fn load(name: &str) -> Encoder {
    Encoder::load(&tiny_manifest(name), &tiny_folder(name), DeviceChoice::Cpu).unwrap()
}

fn embed(encoder: &Encoder, texts: &[&str], role: Role) -> Vec<Vec<f32>> {
    encoder.embed(texts, role).unwrap().vectors
}

fn check_reference(name: &str, encoder: &Encoder) {
    let reference = Reference::of(name);
    for (role, expected) in [
        (Role::Query, &reference.query),
        (Role::Passage, &reference.passage),
    ] {
        let found = embed(encoder, &reference.texts(), role);
        assert_eq!(found.len(), expected.len());
        for ((text, found), expected) in reference.texts.iter().zip(&found).zip(expected) {
            let cosine = cosine(found, expected);
            assert!(
                cosine >= SAME,
                "{name}: `{text}` as {role:?}: cosine {cosine}"
            );
        }
    }
}

#[test]
fn every_architecture_gives_the_vectors_of_its_original() {
    for name in ALL {
        check_reference(name, &load(name));
    }
}

#[test]
fn every_kernel_gives_the_vectors_of_the_originals() {
    for name in ["tiny-bert", "tiny-xlm-roberta"] {
        for kernel in Kernel::usable() {
            let options = EncoderOptions {
                device: DeviceChoice::Cpu,
                kernel: Some(kernel),
                ..EncoderOptions::default()
            };
            let loaded = Encoder::load_with(&tiny_manifest(name), &tiny_folder(name), &options);
            // It cuts models up into blocks of 32; these are narrower.
            if kernel == Kernel::Amx {
                let error = loaded.unwrap_err().to_string();
                assert!(error.contains("`amx`"), "{error}");
                continue;
            }
            check_reference(name, &loaded.unwrap());
        }
    }
}

#[test]
fn the_references_reach_from_the_shortest_text_to_the_whole_window() {
    for name in ALL {
        let encoder = load(name);
        let reference = Reference::of(name);
        let longest = reference.texts().into_iter().map(|text| {
            let lengths = [Role::Query, Role::Passage].map(|role| {
                let embedded = encoder.embed(&[text], role).unwrap();
                assert_eq!(embedded.n_cut, 0, "{name}: `{text}`");
                embedded.n_tokens
            });
            lengths.into_iter().max().unwrap()
        });
        assert_eq!(longest.max(), Some(encoder.card().window), "{name}");
        assert!(reference.texts.len() >= 18, "{name}");
    }
}

#[test]
fn a_batch_gives_what_each_text_gives_alone_in_the_order_of_the_texts() {
    for name in ALL {
        let encoder = load(name);
        let reference = Reference::of(name);
        // Long ones beside short ones, more than go through at once.
        let texts: Vec<&str> = reference.texts().into_iter().cycle().take(100).collect();
        let mut backwards = texts.clone();
        backwards.reverse();
        let together = embed(&encoder, &texts, Role::Query);
        let mut reversed = embed(&encoder, &backwards, Role::Query);
        reversed.reverse();
        for (idx, text) in texts.iter().enumerate() {
            let alone = &embed(&encoder, &[text], Role::Query)[0];
            for other in [&together[idx], &reversed[idx]] {
                let cosine = cosine(alone, other);
                assert!(cosine >= SAME, "{name}: `{text}`: cosine {cosine}");
            }
        }
    }
}

#[test]
fn a_text_longer_than_the_window_is_cut_and_keeps_its_last_special_token() {
    for name in ALL {
        let encoder = load(name);
        let window = encoder.card().window;
        let reference = Reference::of(name);
        let full = reference
            .texts()
            .into_iter()
            .rfind(|text| encoder.count_tokens(text) == window);
        let Some(full) = full else {
            // Only with the query's prefix does a text fill the window.
            assert_eq!(name, "tiny-qwen3");
            continue;
        };
        let over = format!("{full} the lazy dog, the lazy dog");
        let embedded = encoder.embed(&[&over, "a"], Role::Passage).unwrap();
        assert_eq!(embedded.n_cut, 1, "{name}");
        let whole = &embed(&encoder, &[full], Role::Passage)[0];
        let cosine = cosine(whole, &embedded.vectors[0]);
        assert!(cosine >= SAME, "{name}: cosine {cosine}");
    }
}

#[test]
fn every_model_and_every_setting_that_changes_vectors_has_its_own_fingerprint() {
    let mut seen: Vec<(String, String)> = Vec::new();
    let mut check = |what: String, encoder: &Encoder| {
        let fingerprint = encoder.card().fingerprint.clone();
        for (other, found) in &seen {
            assert_ne!(&fingerprint, found, "`{what}` and `{other}`");
        }
        seen.push((what, fingerprint));
    };
    for name in ALL {
        check(name.to_owned(), &load(name));
    }
    for (name, from, to) in SETTINGS.iter().chain(EPSILONS) {
        check(format!("{name}: {to}"), &load_changed(name, from, to));
    }
}

/// Settings that change vectors and no tensor's shape.
const SETTINGS: &[(&str, &str, &str)] = &[
    (
        "tiny-bert",
        "\"num_attention_heads\": 4",
        "\"num_attention_heads\": 8",
    ),
    (
        "tiny-xlm-roberta",
        "\"pad_token_id\": 1",
        "\"pad_token_id\": 0",
    ),
    (
        "tiny-modernbert",
        "\"num_attention_heads\": 4",
        "\"num_attention_heads\": 8",
    ),
    (
        "tiny-modernbert",
        "\"local_attention\": 16",
        "\"local_attention\": 14",
    ),
    (
        "tiny-modernbert",
        "\"local_attention\": 16",
        "\"local_attention\": 18",
    ),
    (
        "tiny-modernbert",
        "\"global_attn_every_n_layers\": 3",
        "\"global_attn_every_n_layers\": 2",
    ),
    (
        "tiny-modernbert",
        "\"global_rope_theta\": 1600.0",
        "\"global_rope_theta\": 1500.0",
    ),
    (
        "tiny-modernbert",
        "\"local_rope_theta\": 100.0",
        "\"local_rope_theta\": 110.0",
    ),
    (
        "tiny-qwen3",
        "\"rope_theta\": 1000.0",
        "\"rope_theta\": 1100.0",
    ),
];

/// The same, but too little for a cosine to tell.
const EPSILONS: &[(&str, &str, &str)] = &[
    (
        "tiny-bert",
        "\"layer_norm_eps\": 1e-12",
        "\"layer_norm_eps\": 1e-11",
    ),
    (
        "tiny-modernbert",
        "\"norm_eps\": 1e-05",
        "\"norm_eps\": 2e-05",
    ),
    (
        "tiny-qwen3",
        "\"rms_norm_eps\": 1e-06",
        "\"rms_norm_eps\": 2e-06",
    ),
];

/// The model with one of its settings changed.
fn load_changed(name: &str, from: &str, to: &str) -> Encoder {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        fs::copy(tiny_folder(name).join(file), folder.path().join(file)).unwrap();
    }
    let config = folder.path().join("config.json");
    let json = fs::read_to_string(&config).unwrap();
    assert!(json.contains(from), "{name}: {from}");
    fs::write(&config, json.replacen(from, to, 1)).unwrap();
    Encoder::load(&tiny_manifest(name), folder.path(), DeviceChoice::Cpu).unwrap()
}

#[test]
fn the_references_notice_every_setting_that_is_a_little_wrong() {
    for (name, from, to) in SETTINGS {
        let reference = Reference::of(name);
        let found = embed(
            &load_changed(name, from, to),
            &reference.texts(),
            Role::Query,
        );
        let cosines = found
            .iter()
            .zip(&reference.query)
            .map(|(a, b)| cosine(a, b));
        let lowest = cosines.fold(1.0, f32::min);
        assert!(lowest < SAME, "{name}: {to}: cosine {lowest}");
    }
}

#[test]
fn settings_as_transformers_5_writes_them_mean_the_same() {
    let check = |name: &str, from: &str, to: &str| {
        check_reference(name, &load_changed(name, from, to));
    };
    check(
        "tiny-modernbert",
        "\"global_attn_every_n_layers\": 3,\n  \"global_rope_theta\": 1600.0",
        r#""global_attn_every_n_layers": 1, "layer_types": ["full_attention", "sliding_attention",
            "sliding_attention", "full_attention"], "rope_parameters": {
            "full_attention": {"rope_theta": 1600.0, "rope_type": "default"},
            "sliding_attention": {"rope_theta": 100.0, "rope_type": "default"}},
            "global_rope_theta": 7.0"#,
    );
    check(
        "tiny-qwen3",
        "\"rope_theta\": 1000.0",
        r#""rope_parameters": {"rope_theta": 1000.0, "rope_type": "default"}"#,
    );
}

#[test]
fn texts_without_a_known_word_have_one_vector_that_no_word_has() {
    for name in ["tiny-static", "tiny-static-mapped"] {
        let encoder = load(name);
        let vectors = embed(&encoder, &["", "\n ", "the cat"], Role::Passage);
        assert_eq!(vectors[0], vectors[1], "{name}");
        assert!(cosine(&vectors[0], &vectors[2]) < 0.9, "{name}");
    }
    let encoder = load("tiny-static");
    // A letter that the tokenizer has not seen.
    let texts = ["", "\u{1200}", "the cat", "the cat \u{1200}"];
    let vectors = embed(&encoder, &texts, Role::Passage);
    assert_eq!(vectors[0], vectors[1]);
    assert!(cosine(&vectors[2], &vectors[3]) >= SAME);
}
