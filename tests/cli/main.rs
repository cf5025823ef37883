//! What a user sees: the built `pkm` run as a user runs it.
//!
//! Most tests run without a model, which is how a fresh machine starts. Those in `meaning` need the
//! real one, which `scripts/fetch-model multilingual-e5-small-q4` fetches into `.cache/models`.

mod eval;
#[allow(dead_code, reason = "the tests of `pkm-embed` use the rest")]
#[path = "../../crates/pkm-embed/tests/common/farm.rs"]
mod farm;
mod help;
mod http;
mod inspect;
mod meaning;
mod models;
mod notes;
mod search;
mod serve;
mod settings;
mod support;
mod transfer;
#[allow(dead_code, reason = "the tests of `pkm-embed` use the rest")]
#[path = "../../crates/pkm-embed/tests/common/web.rs"]
mod web;
