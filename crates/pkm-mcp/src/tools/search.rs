//! `search_notes`, `semantic_search_notes`, `related_notes`.

use pkm_engine::{Filter, NoteId, SearchMode, SearchRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Effect, NoteTool, Turn,
    matches::{self, Detail, Matches},
};
use crate::{text::parse_time, wire::Fault};

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
        matches::text(answer)
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
        matches::text(answer)
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
        matches::text(answer)
    }
}
