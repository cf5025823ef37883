//! What the tests that run a model share.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::PathBuf;

use pkm_embed::Manifest;

/// Where the models are: the folder in `PKM_TEST_MODELS`, or `.cache/models` of the checkout.
pub(crate) fn models() -> PathBuf {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test has no config module to ask"
    )]
    let chosen = std::env::var_os("PKM_TEST_MODELS");
    chosen.map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.cache/models"),
        PathBuf::from,
    )
}

pub(crate) fn manifest(name: &str) -> &'static Manifest {
    Manifest::named(name).unwrap()
}

/// The folder of a model with random weights, which `scripts/make-tiny-models` made.
pub(crate) fn tiny_folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/tiny")
        .join(name)
}

pub(crate) fn tiny_manifest(name: &str) -> Manifest {
    let toml = std::fs::read_to_string(tiny_folder(name).join("manifest.toml")).unwrap();
    Manifest::parse(&toml).unwrap()
}

pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// An error with its causes.
pub(crate) fn words(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", words(source)),
        None => error.to_string(),
    }
}
