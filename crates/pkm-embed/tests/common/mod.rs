//! What the tests that run a model share.

use std::path::PathBuf;

use pkm_embed::{DeviceChoice, Encoder, Manifest};

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

/// Loads a model, or fails with what to do: a test that skips itself proves nothing.
pub(crate) fn load(name: &str) -> Encoder {
    let folder = models().join(name);
    assert!(
        folder.join("config.json").exists(),
        "no model in {}: run scripts/fetch-model {name}",
        folder.display()
    );
    Encoder::load(manifest(name), &folder, DeviceChoice::Cpu).unwrap()
}

pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
