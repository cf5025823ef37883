//! `search` and `fetch`, as connectors of chat applications look for them: two tools of fixed names
//! and shapes, whose text is the same JSON as their structured content.

use pkm_engine::{Filter, NoteId, SearchMode, SearchRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, NoteTool, Turn};
use crate::{resources::note_uri, text::cut, wire::Fault};

/// Notes that one search gives.
const N_RESULTS: usize = 10;
/// The most of one note that is given: there is no second page.
const TEXT_MAX_BYTES: usize = 200_000;
const TITLE_MAX_BYTES: usize = 240;

#[derive(Debug)]
pub(super) struct Search;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArguments {
    /// A question or words, in any language.
    #[schemars(length(min = 1))]
    query: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Results {
    results: Vec<Entry>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// For `fetch`.
    id: String,
    title: String,
    /// To cite it by.
    url: String,
}

impl NoteTool for Search {
    const NAME: &'static str = "search";
    const TITLE: &'static str = "Search notes";
    const DESCRIPTION: &'static str = "Finds notes by words and by meaning, in Korean and English, the best first. \
        Give the ids to fetch to read the notes.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = SearchArguments;
    type Answer = Results;

    fn call(turn: &Turn, arguments: SearchArguments) -> Result<Results, Fault> {
        let found = turn.engine.search(&SearchRequest {
            query: arguments.query,
            mode: SearchMode::Hybrid,
            filter: Filter::default(),
            limit: N_RESULTS,
            cursor: None,
            min_score: None,
        })?;
        let results = found.hits.into_iter().map(|hit| Entry {
            id: hit.id.to_string(),
            title: cut(&hit.title, TITLE_MAX_BYTES).0.into_owned(),
            url: note_uri(hit.id),
        });
        Ok(Results {
            results: results.collect(),
        })
    }

    fn text(answer: &Results) -> String {
        json(answer)
    }
}

#[derive(Debug)]
pub(super) struct Fetch;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FetchArguments {
    /// The id of a note, as `search` gave it.
    #[schemars(length(min = 1))]
    id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Document {
    id: String,
    title: String,
    /// Markdown.
    text: String,
    /// To cite it by.
    url: String,
    metadata: Metadata,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Metadata {
    folder: String,
    /// Separated by commas.
    tags: String,
    created_at: String,
    updated_at: String,
    /// Only there, as `true`, where the end of a very long note is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<String>,
}

impl NoteTool for Fetch {
    const NAME: &'static str = "fetch";
    const TITLE: &'static str = "Fetch a note";
    const DESCRIPTION: &'static str = "Gives the text of a note by the id that search gave.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = FetchArguments;
    type Answer = Document;

    fn call(turn: &Turn, arguments: FetchArguments) -> Result<Document, Fault> {
        let id = arguments.id.trim();
        // Models take the url for the id now and then; it means the same note.
        let id = id.strip_prefix("note://").unwrap_or(id).parse();
        let id = id.map(NoteId).map_err(|_| {
            let given = cut(&arguments.id, 60).0;
            Fault::argument(
                "id",
                format!("is `{given}`; it must be an id that `search` gave"),
            )
        })?;
        let note = turn.engine.get_note(id)?;
        let (text, was_cut) = cut(&note.content, TEXT_MAX_BYTES);
        Ok(Document {
            id: id.to_string(),
            title: note.title,
            text: text.into_owned(),
            url: note_uri(id),
            metadata: Metadata {
                folder: note.folder,
                tags: note.tags.join(", "),
                created_at: note.created_at.to_string(),
                updated_at: note.updated_at.to_string(),
                truncated: was_cut.then(|| "true".to_owned()),
            },
        })
    }

    fn text(answer: &Document) -> String {
        json(answer)
    }
}

fn json(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).expect("strings can be written")
}
