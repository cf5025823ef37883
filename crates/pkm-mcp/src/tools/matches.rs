//! What the searches answer: the best passage of each note, within bounds.

use pkm_engine::{Completeness, Hit, IndexState, SearchAnswer};
use schemars::JsonSchema;
use serde::Serialize;

use crate::text::{count, cut, one_line};

/// All snippets of one answer together, in bytes; the most and the least for one of them.
/// Fifty matches with their titles and texts stay far below what a client takes at once.
const SNIPPETS_MAX_BYTES: usize = 14_000;
const SNIPPET_MAX_BYTES: usize = 1_200;
const SNIPPET_MIN_BYTES: usize = 240;
/// The same for the text rendering, which repeats what the structured content says.
const TEXT_SNIPPETS_MAX_BYTES: usize = 10_000;
const TEXT_SNIPPET_MAX_BYTES: usize = 600;
const TITLE_MAX_BYTES: usize = 180;
const TEXT_TITLE_MAX_BYTES: usize = 120;
const HEADING_MAX_BYTES: usize = 120;
const TAGS_MAX: usize = 12;

/// The best passage of one note.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Match {
    /// The note's id, for `get_note`.
    id: i64,
    title: String,
    /// The passage that matched.
    snippet: String,
    /// Comparable within one answer only.
    score: f64,
    /// Empty for the root.
    folder: String,
    tags: Vec<String>,
    /// The headings above the passage, outermost first.
    heading: Vec<String>,
    /// First and last line of the passage in the note, counted from 1.
    lines: [usize; 2],
    updated_at: String,
    /// Something of this match was shortened to keep the answer small.
    #[serde(skip_serializing_if = "is_false")]
    cut: bool,
    /// Ranks in the two searches that were fused.
    #[serde(skip_serializing_if = "Option::is_none")]
    arms: Option<Arms>,
    /// Cosine of query and passage.
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f32>,
}

/// Where a match stands in each of the two searches, counted from 1.
#[derive(Debug, Serialize, JsonSchema)]
struct Arms {
    #[serde(skip_serializing_if = "Option::is_none")]
    keyword: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<usize>,
}

/// How much of the notes the search could see.
#[derive(Debug, Serialize, JsonSchema)]
struct Index {
    state: IndexWord,
    /// Passages that wait to be embedded.
    pending: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum IndexWord {
    Complete,
    Partial,
    KeywordOnly,
    Empty,
}

/// What a search found.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Matches {
    matches: Vec<Match>,
    /// Give it back as `cursor` for the next matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    index: Index,
}

/// Whether the arms of the fusion are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    Plain,
    Arms,
}

impl Matches {
    pub(super) fn new(answer: SearchAnswer, detail: Detail) -> Self {
        let n_hits = answer.hits.len().max(1);
        let max_bytes = (SNIPPETS_MAX_BYTES / n_hits).clamp(SNIPPET_MIN_BYTES, SNIPPET_MAX_BYTES);
        Self {
            matches: answer
                .hits
                .into_iter()
                .map(|hit| Match::new(hit, max_bytes, detail))
                .collect(),
            next_cursor: answer.next_cursor,
            index: Index::new(answer.index),
        }
    }
}

impl Match {
    fn new(hit: Hit, max_bytes: usize, detail: Detail) -> Self {
        let (snippet, snippet_cut) = cut(&hit.snippet, max_bytes);
        let (title, title_cut) = cut(&hit.title, TITLE_MAX_BYTES);
        let heading: Vec<_> = hit
            .heading
            .iter()
            .map(|name| cut(name, HEADING_MAX_BYTES))
            .collect();
        let mut tags = hit.tags;
        let tags_cut = tags.len() > TAGS_MAX;
        tags.truncate(TAGS_MAX);
        Self {
            id: hit.id.0,
            title: title.into_owned(),
            snippet: snippet.into_owned(),
            score: hit.score,
            folder: hit.folder,
            tags,
            cut: snippet_cut
                || title_cut
                || tags_cut
                || heading.iter().any(|(_, was_cut)| *was_cut),
            heading: heading
                .into_iter()
                .map(|(name, _)| name.into_owned())
                .collect(),
            lines: [hit.lines.0, hit.lines.1],
            updated_at: hit.updated_at.to_string(),
            arms: (detail == Detail::Arms).then_some(Arms {
                keyword: hit.arms.keyword,
                vector: hit.arms.vector,
            }),
            similarity: if detail == Detail::Arms {
                hit.similarity
            } else {
                None
            },
        }
    }
}

impl Index {
    fn new(index: IndexState) -> Self {
        let state = match index.state {
            Completeness::Complete => IndexWord::Complete,
            Completeness::Partial => IndexWord::Partial,
            Completeness::KeywordOnly => IndexWord::KeywordOnly,
            Completeness::Empty => IndexWord::Empty,
        };
        Self {
            state,
            pending: index.pending,
            reason: index.reason,
        }
    }

    /// What the reader must know about what was not looked at.
    fn caveat(&self) -> Option<String> {
        let because = self
            .reason
            .as_deref()
            .map(|reason| format!(": {reason}"))
            .unwrap_or_default();
        match self.state {
            IndexWord::Complete => None,
            IndexWord::Partial => Some(format!(
                "The index is not complete{because}. A note may be missing here; `search_notes` sees them all."
            )),
            IndexWord::KeywordOnly => Some(format!("This went by words alone{because}.")),
            IndexWord::Empty => Some("There are no notes yet.".to_owned()),
        }
    }
}

pub(super) fn text(answer: &Matches) -> String {
    let n_matches = answer.matches.len();
    let mut text = match answer.next_cursor {
        _ if n_matches == 0 => "No note found.".to_owned(),
        Some(_) => format!("{} found; more with next_cursor.", count(n_matches, "note")),
        None => format!("{} found.", count(n_matches, "note")),
    };
    if let Some(caveat) = answer.index.caveat() {
        text.push(' ');
        text.push_str(&caveat);
    }
    let max_bytes = (TEXT_SNIPPETS_MAX_BYTES / n_matches.max(1))
        .clamp(SNIPPET_MIN_BYTES / 2, TEXT_SNIPPET_MAX_BYTES);
    let mut any_cut = false;
    for (rank, found) in answer.matches.iter().enumerate() {
        let snippet = one_line(&found.snippet);
        let (snippet, was_cut) = cut(&snippet, max_bytes);
        any_cut |= was_cut || found.cut;
        let place = if found.folder.is_empty() {
            String::new()
        } else {
            format!(" in {}", found.folder)
        };
        text.push_str(&format!(
            "\n{}. [id {}] {}{place}, lines {}-{}\n   {snippet}",
            rank + 1,
            found.id,
            cut(&one_line(&found.title), TEXT_TITLE_MAX_BYTES).0,
            found.lines[0],
            found.lines[1],
        ));
    }
    if any_cut {
        text.push_str("\n`…` marks what was cut; `get_note` gives the whole note.");
    }
    text
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}
