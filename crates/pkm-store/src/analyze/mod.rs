//! Text into searchable tokens, and queries against text. Pure: no storage, no settings.

mod endings;
mod english;
mod hangul;
mod matches;
mod normalize;
mod posting;
mod query;
mod scan;
mod stop;
mod words;

pub use matches::matches;
pub(crate) use posting::posting;
pub(crate) use query::{Form, Plan, Query, Term};

/// Posting text of the fields that all chunks of a note share.
pub(crate) struct NoteFields {
    pub(crate) title: String,
    pub(crate) tags: String,
}

impl NoteFields {
    pub(crate) fn new(title: &str, tags: &[String]) -> Self {
        Self {
            title: posting(title),
            tags: posting(&tags.join("\n")),
        }
    }
}
