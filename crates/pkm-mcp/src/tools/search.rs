//! `search_notes`, `semantic_search_notes`, `related_notes`.

use pkm_engine::{
    Completeness, Filter, Hit, IndexState, NoteId, SearchAnswer, SearchMode, SearchRequest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, NoteTool, Turn};
use crate::wire::{Fault, count, cut, one_line, parse_time};

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
enum Detail {
    Plain,
    Arms,
}

impl Matches {
    fn new(answer: SearchAnswer, detail: Detail) -> Self {
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

fn matches_text(answer: &Matches) -> String {
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

/// The notes to look among.
fn filter(
    tags: Vec<String>,
    folder: Option<String>,
    updated_after: Option<&str>,
    updated_before: Option<&str>,
) -> Result<Filter, Fault> {
    Ok(Filter {
        tags,
        folder,
        updated_after: updated_after
            .map(|text| parse_time("updated_after", text))
            .transpose()?,
        updated_before: updated_before
            .map(|text| parse_time("updated_before", text))
            .transpose()?,
    })
}

fn ten() -> usize {
    10
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Debug)]
pub(super) struct SearchNotes;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArguments {
    /// Words to find, in any language; "in quotes" for a phrase, -word to leave out.
    #[schemars(length(min = 1))]
    query: String,
    /// How many notes at most.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50))]
    limit: usize,
    /// `next_cursor` of the answer before.
    cursor: Option<String>,
    /// Only notes that have all of these tags.
    #[serde(default)]
    tags: Vec<String>,
    /// Only notes in this folder or below, such as `work/meetings`.
    folder: Option<String>,
    /// Only notes changed after this time: RFC 3339 or a date.
    updated_after: Option<String>,
    /// Only notes changed before this time: RFC 3339 or a date.
    updated_before: Option<String>,
}

impl NoteTool for SearchNotes {
    const NAME: &'static str = "search_notes";
    const TITLE: &'static str = "Search notes by words";
    const DESCRIPTION: &'static str = "Finds notes that contain the words of the query and gives the best passage \
        of each, best note first. Every note is there at once, also one added a moment ago. Works for Korean (a \
        noun is found with any particle) and for names, codes and numbers such as PR-1234. Use it when you know a \
        word that must be in the note; use semantic_search_notes for a question or an idea.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = SearchArguments;
    type Answer = Matches;

    fn call(turn: &Turn, arguments: SearchArguments) -> Result<Matches, Fault> {
        let SearchArguments {
            query,
            limit,
            cursor,
            tags,
            folder,
            updated_after,
            updated_before,
        } = arguments;
        let answer = turn.engine.search(&SearchRequest {
            query,
            mode: SearchMode::Keyword,
            filter: filter(
                tags,
                folder,
                updated_after.as_deref(),
                updated_before.as_deref(),
            )?,
            limit,
            cursor,
            min_score: None,
        })?;
        Ok(Matches::new(answer, Detail::Plain))
    }

    fn text(answer: &Matches) -> String {
        matches_text(answer)
    }
}

#[derive(Debug)]
pub(super) struct SemanticSearchNotes;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SemanticArguments {
    /// A question or a description of what is looked for, in any language.
    #[schemars(length(min = 1))]
    query: String,
    /// By meaning and by words together, or by meaning alone.
    #[serde(default)]
    mode: Mode,
    /// How many notes at most.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50))]
    limit: usize,
    /// `next_cursor` of the answer before.
    cursor: Option<String>,
    /// Only notes that have all of these tags.
    #[serde(default)]
    tags: Vec<String>,
    /// Only notes in this folder or below, such as `work/meetings`.
    folder: Option<String>,
    /// Only notes changed after this time: RFC 3339 or a date.
    updated_after: Option<String>,
    /// Only notes changed before this time: RFC 3339 or a date.
    updated_before: Option<String>,
    /// Leave out matches that score less; compare with the scores of an answer.
    min_score: Option<f64>,
}

#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Hybrid,
    Vector,
}

impl NoteTool for SemanticSearchNotes {
    const NAME: &'static str = "semantic_search_notes";
    const TITLE: &'static str = "Search notes by meaning";
    const DESCRIPTION: &'static str = "Finds notes by what they mean, across languages: a Korean question finds an \
        English note and the other way round. Gives the best passage of each note, best note first, by meaning and \
        by words together unless mode is `vector`. Ask a full question in the user's own words. `index` says \
        whether all notes could be seen; with state `keyword_only` the answer is by words alone.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = SemanticArguments;
    type Answer = Matches;

    fn call(turn: &Turn, arguments: SemanticArguments) -> Result<Matches, Fault> {
        let SemanticArguments {
            query,
            mode,
            limit,
            cursor,
            tags,
            folder,
            ..
        } = arguments;
        let (after, before) = (arguments.updated_after, arguments.updated_before);
        let answer = turn.engine.search(&SearchRequest {
            query,
            mode: match mode {
                Mode::Hybrid => SearchMode::Hybrid,
                Mode::Vector => SearchMode::Vector,
            },
            filter: filter(tags, folder, after.as_deref(), before.as_deref())?,
            limit,
            cursor,
            min_score: arguments.min_score,
        })?;
        Ok(Matches::new(answer, Detail::Arms))
    }

    fn text(answer: &Matches) -> String {
        matches_text(answer)
    }
}

#[derive(Debug)]
pub(super) struct RelatedNotes;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RelatedArguments {
    /// The note to start from.
    #[schemars(range(min = 1))]
    id: i64,
    /// How many notes at most.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50))]
    limit: usize,
    /// Only notes that have all of these tags.
    #[serde(default)]
    tags: Vec<String>,
    /// Only notes in this folder or below.
    folder: Option<String>,
    /// Only notes changed after this time: RFC 3339 or a date.
    updated_after: Option<String>,
    /// Only notes changed before this time: RFC 3339 or a date.
    updated_before: Option<String>,
}

impl NoteTool for RelatedNotes {
    const NAME: &'static str = "related_notes";
    const TITLE: &'static str = "Find related notes";
    const DESCRIPTION: &'static str = "Finds the notes that are nearest in meaning to one note, nearest first, the \
        note itself left out. Use it to discover connections from a note that you already have.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = RelatedArguments;
    type Answer = Matches;

    fn call(turn: &Turn, arguments: RelatedArguments) -> Result<Matches, Fault> {
        let RelatedArguments {
            id,
            limit,
            tags,
            folder,
            updated_after,
            updated_before,
        } = arguments;
        let filter = filter(
            tags,
            folder,
            updated_after.as_deref(),
            updated_before.as_deref(),
        )?;
        let answer = turn.engine.related_notes(NoteId(id), limit, &filter)?;
        Ok(Matches::new(answer, Detail::Arms))
    }

    fn text(answer: &Matches) -> String {
        matches_text(answer)
    }
}
