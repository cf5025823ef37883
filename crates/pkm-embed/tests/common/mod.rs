//! What the tests that run a model share.

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
