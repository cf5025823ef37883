//! Prompts that come with the notes they are about.

use jiff::{SignedDuration, Timestamp};
use pkm_engine::{
    Engine, Error as EngineError, Filter, ListRequest, NoteId, SearchMode, SearchRequest, Sort,
};
use rmcp::model::{
    ContentBlock, ErrorData, GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage,
    Role,
};

use crate::{
    resources::{Completion, note_uri, text_contents},
    text::{count, cut, parse_time},
    wire::{Fault, invalid_params, text_argument},
};

/// All notes of one prompt together, and one of them, in bytes.
const NOTES_MAX_BYTES: usize = 40_000;
const NOTE_MAX_BYTES: usize = 8_000;
/// Below this, a piece of a note is not worth its place.
const NOTE_MIN_BYTES: usize = 400;
const N_TOPIC_NOTES: usize = 10;
const N_RELATED_NOTES: usize = 8;
const N_WEEK_NOTES: usize = 30;

const SUMMARIZE_TOPIC: &str = "summarize_topic";
const FIND_CONNECTIONS: &str = "find_connections";
const WEEKLY_REVIEW: &str = "weekly_review";
const NAMES: [&str; 3] = [FIND_CONNECTIONS, SUMMARIZE_TOPIC, WEEKLY_REVIEW];

/// The prompts on offer, by name.
pub(crate) fn list() -> Vec<Prompt> {
    let argument = |name: &str, title: &str, description: &str| {
        PromptArgument::new(name)
            .with_title(title)
            .with_description(description)
    };
    vec![
        Prompt::new(
            FIND_CONNECTIONS,
            Some("Looks for connections between one note and the notes nearest to it in meaning"),
            Some(vec![
                argument("note_id", "Note", "The id of the note to start from").with_required(true),
            ]),
        )
        .with_title("Find connections of a note"),
        Prompt::new(
            SUMMARIZE_TOPIC,
            Some("Sums up what the notes say about a topic, with sources"),
            Some(vec![
                argument(
                    "topic",
                    "Topic",
                    "A word, a tag or a question, in any language",
                )
                .with_required(true),
            ]),
        )
        .with_title("Sum up a topic"),
        Prompt::new(
            WEEKLY_REVIEW,
            Some("Goes through the notes that were added or changed lately"),
            Some(vec![
                argument(
                    "since",
                    "Since",
                    "A date such as 2026-11-23 or an RFC 3339 time; the last 7 days if left out",
                )
                .with_required(false),
            ]),
        )
        .with_title("Review the week"),
    ]
}

/// How to complete an argument of a prompt.
///
/// # Errors
///
/// Invalid parameters where there is no such prompt or argument.
pub(crate) fn completion(prompt: &str, argument: &str) -> Result<Completion, ErrorData> {
    match (prompt, argument) {
        (FIND_CONNECTIONS, "note_id") => Ok(Completion::NoteId),
        (SUMMARIZE_TOPIC, "topic") => Ok(Completion::Tag),
        (WEEKLY_REVIEW, "since") => Ok(Completion::Date),
        _ if NAMES.contains(&prompt) => Err(invalid_params(
            "argument.name",
            format!(
                "is `{}`, which `{prompt}` does not have",
                cut(argument, 60).0
            ),
        )),
        _ => Err(unknown("ref.name", prompt)),
    }
}

/// One prompt, filled in.
///
/// # Errors
///
/// Invalid parameters where there is no such prompt, or an argument is missing or wrong.
pub(crate) fn get(
    engine: &Engine,
    name: &str,
    arguments: Option<&JsonObject>,
) -> Result<GetPromptResult, ErrorData> {
    let known = match name {
        SUMMARIZE_TOPIC => "topic",
        FIND_CONNECTIONS => "note_id",
        WEEKLY_REVIEW => "since",
        _ => return Err(unknown("name", name)),
    };
    if let Some(other) = arguments
        .into_iter()
        .flat_map(|given| given.keys())
        .find(|key| *key != known)
    {
        return Err(invalid_params(
            other,
            format!("is not known here; known is `{known}`"),
        ));
    }
    let argument = text_argument(arguments, known).map_err(Fault::into_protocol_error)?;
    let required = || {
        argument
            .clone()
            .ok_or_else(|| Fault::argument(known, "is required"))
    };
    let filled = match name {
        SUMMARIZE_TOPIC => required().and_then(|topic| summarize_topic(engine, &topic)),
        FIND_CONNECTIONS => required().and_then(|id| find_connections(engine, &id)),
        _ => weekly_review(engine, argument.as_deref()),
    };
    filled.map_err(Fault::into_protocol_error)
}

fn unknown(field: &str, name: &str) -> ErrorData {
    invalid_params(
        field,
        format!(
            "is `{}`; the prompts are {}",
            cut(name, 60).0,
            NAMES.join(", ")
        ),
    )
}

fn summarize_topic(engine: &Engine, topic: &str) -> Result<GetPromptResult, Fault> {
    let found = engine
        .search(&SearchRequest {
            query: topic.to_owned(),
            mode: SearchMode::Hybrid,
            filter: Filter::default(),
            limit: N_TOPIC_NOTES,
            cursor: None,
            min_score: None,
        })
        .map_err(|error| renamed(error, "topic"))?;
    let ids: Vec<_> = found.hits.iter().map(|hit| hit.id).collect();
    let notes = Notes::read(engine, &ids)?;
    let mut text = if notes.is_empty() {
        format!(
            "I have no notes about \"{topic}\" that a search could find. Say so, and ask what I would like to write down."
        )
    } else {
        format!(
            "Sum up what my notes say about \"{topic}\". {} follow, the most fitting first; some may be beside the \
             point, leave those out. Start with the gist in two or three sentences, then the details by theme, then \
             open questions and contradictions. Name the note behind each statement as [title](note://id). Write in \
             the language of the topic. Do not add what the notes do not say.",
            count(notes.n(), "note"),
        )
    };
    if let Some(reason) = found.index.reason {
        text.push_str(&format!(" (The search may have missed some: {reason}.)"));
    }
    Ok(notes.into_prompt(text, format!("What the notes say about {topic}")))
}

fn find_connections(engine: &Engine, id: &str) -> Result<GetPromptResult, Fault> {
    let id = id.trim().parse().map(NoteId).map_err(|_| {
        Fault::argument(
            "note_id",
            format!("is `{}`; it must be a note's number", cut(id, 60).0),
        )
    })?;
    let note = engine
        .get_note(id)
        .map_err(|error| renamed(error, "note_id"))?;
    let (related, caveat) = match engine.related_notes(id, N_RELATED_NOTES, &Filter::default()) {
        Ok(found) => (found.hits, found.index.reason),
        Err(error @ (EngineError::NoModel { .. } | EngineError::StaleIndex { .. })) => {
            (Vec::new(), Some(error.to_string()))
        }
        Err(error) => return Err(error.into()),
    };
    let ids: Vec<_> = std::iter::once(id)
        .chain(related.iter().map(|hit| hit.id))
        .collect();
    let notes = Notes::read(engine, &ids)?;
    let mut text = format!(
        "Find connections between my note \"{}\" ({}) and the other notes that follow, nearest in meaning first. For \
         each connection name both notes as [title](note://id), say in one or two sentences what connects them, and \
         whether it is a shared subject, a cause, a contradiction or a next step. Point out a connection that I have \
         probably missed. Leave out notes that only look alike. Write in the language of the note.",
        note.title,
        note_uri(id),
    );
    if let Some(reason) = caveat {
        text.push_str(&format!(" (Some notes may be missing: {reason}.)"));
    }
    Ok(notes.into_prompt(text, format!("Connections of {}", note.title)))
}

fn weekly_review(engine: &Engine, since: Option<&str>) -> Result<GetPromptResult, Fault> {
    let since = match since {
        Some(text) => parse_time("since", text)?,
        None => Timestamp::now() - SignedDuration::from_hours(7 * 24),
    };
    let page = engine.list_notes(&ListRequest {
        filter: Filter {
            updated_after: Some(since),
            ..Filter::default()
        },
        sort: Sort::Updated,
        limit: N_WEEK_NOTES,
        cursor: None,
    })?;
    let ids: Vec<_> = page.notes.iter().map(|note| note.id).collect();
    let notes = Notes::read(engine, &ids)?;
    let text = if notes.is_empty() {
        format!(
            "No note was added or changed since {since}. Say so, and ask what happened that is worth a note."
        )
    } else {
        format!(
            "Review what I noted since {since}: {} in all, of which {} follow, the last changed first. Tell me what the \
             time was about, what was decided, what is still open (as a list of next steps, with dates where the notes \
             have them), and what fits together across notes. Name the note behind each point as [title](note://id). \
             Write in the language that most of the notes are in.",
            count(page.total, "note"),
            notes.n(),
        )
    };
    Ok(notes.into_prompt(text, format!("Review of the notes since {since}")))
}

/// An error of the engine about an argument that has another name here; an unknown note is a
/// wrong argument too.
fn renamed(error: EngineError, field: &'static str) -> Fault {
    match error {
        EngineError::Invalid { reason, .. } => Fault::argument(field, reason),
        EngineError::NotFound { .. } | EngineError::Trashed { .. } => {
            Fault::argument(field, format!("cannot be used: {error}"))
        }
        error => error.into(),
    }
}

/// Notes to be embedded in a prompt, within bounds.
struct Notes {
    embedded: Vec<(NoteId, String)>,
    /// Titles of notes for which no room was left.
    left_out: Vec<String>,
}

impl Notes {
    /// Reads notes; one that has gone meanwhile is passed over.
    fn read(engine: &Engine, ids: &[NoteId]) -> Result<Self, Fault> {
        let mut notes = Self {
            embedded: Vec::new(),
            left_out: Vec::new(),
        };
        let mut room = NOTES_MAX_BYTES;
        for (note_idx, id) in ids.iter().enumerate() {
            let note = match engine.get_note(*id) {
                Ok(note) => note,
                Err(EngineError::NotFound { .. } | EngineError::Trashed { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            let share = (room / (ids.len() - note_idx)).clamp(NOTE_MIN_BYTES, NOTE_MAX_BYTES);
            if room < NOTE_MIN_BYTES {
                notes
                    .left_out
                    .push(format!("{} ({})", note.title, note_uri(note.id)));
                continue;
            }
            let (content, was_cut) = cut(&note.content, share);
            let mut text = format!("# {}\n\n{content}", note.title);
            if was_cut {
                text.push_str(&format!(
                    "\n\n[cut here; {} has the whole note]",
                    note_uri(note.id)
                ));
            }
            room = room.saturating_sub(text.len());
            notes.embedded.push((note.id, text));
        }
        Ok(notes)
    }

    fn is_empty(&self) -> bool {
        self.embedded.is_empty()
    }

    fn n(&self) -> usize {
        self.embedded.len()
    }

    fn into_prompt(self, mut text: String, description: String) -> GetPromptResult {
        if !self.left_out.is_empty() {
            text.push_str(&format!(
                " No room was left for: {}.",
                self.left_out.join(", ")
            ));
        }
        let instruction = PromptMessage::new_text(Role::User, text);
        let notes = self.embedded.into_iter().map(|(id, text)| {
            let contents = text_contents(&note_uri(id), "text/markdown", text);
            PromptMessage::new(Role::User, ContentBlock::resource(contents))
        });
        GetPromptResult::new(std::iter::once(instruction).chain(notes).collect())
            .with_description(description)
    }
}
