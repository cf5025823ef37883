//! Notes, the status and jobs as resources, and completion of their ids.

use std::fmt;

use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use pkm_engine::{
    Engine, Error as EngineError, Filter, JobId, ListRequest, NoteId, NoteSummary, Sort,
};
use rmcp::model::{
    Annotations, ArgumentInfo, CompletionInfo, ErrorData, ListResourcesResult, Reference, Resource,
    ResourceContents, ResourceTemplate,
};
use serde_json::json;

use crate::{
    prompts,
    text::cut,
    tools,
    wire::{Fault, invalid_params},
};

const NOTE_TEMPLATE: &str = "note://{id}";
const NOTE_SCHEME: &str = "note://";
const JOB_TEMPLATE: &str = "pkm://jobs/{id}";
const JOB_PREFIX: &str = "pkm://jobs/";
const STATUS_URI: &str = "pkm://status";
const MARKDOWN: &str = "text/markdown";
const JSON: &str = "application/json";
/// Notes on one page of the list.
const PAGE: usize = 50;
const TITLE_MAX_BYTES: usize = 240;

/// What a uri of ours leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Address {
    Status,
    Note(NoteId),
    Job(JobId),
}

impl Address {
    /// `None` for a uri that no resource of this server can have.
    pub(crate) fn parse(uri: &str) -> Option<Self> {
        if uri == STATUS_URI {
            return Some(Self::Status);
        }
        if let Some(id) = uri.strip_prefix(JOB_PREFIX) {
            return id.parse().ok().map(Self::Job);
        }
        let id = uri.strip_prefix(NOTE_SCHEME)?.trim_end_matches('/');
        id.parse().ok().map(|id| Self::Note(NoteId(id)))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status => f.write_str(STATUS_URI),
            Self::Note(id) => write!(f, "{NOTE_SCHEME}{id}"),
            Self::Job(id) => write!(f, "{JOB_PREFIX}{id}"),
        }
    }
}

/// The uri under which a client can read a note.
pub(crate) fn note_uri(id: NoteId) -> String {
    Address::Note(id).to_string()
}

/// One page: the status, then the notes, the last changed first.
pub(crate) fn list(engine: &Engine, cursor: Option<String>) -> Result<ListResourcesResult, Fault> {
    let is_first = cursor.is_none();
    let page = engine.list_notes(&ListRequest {
        filter: Filter::default(),
        sort: Sort::Updated,
        limit: PAGE,
        cursor,
    })?;
    let status = is_first.then(|| {
        Resource::new(STATUS_URI, "status")
            .with_title("Status of notes and index")
            .with_description(
                "How many notes there are, how much is indexed, which model is in use",
            )
            .with_mime_type(JSON)
    });
    let notes = page.notes.iter().map(resource_of);
    let mut result = ListResourcesResult::with_all_items(status.into_iter().chain(notes).collect());
    result.next_cursor = page.next_cursor;
    Ok(result)
}

fn resource_of(note: &NoteSummary) -> Resource {
    let (title, _) = cut(&note.title, TITLE_MAX_BYTES);
    let annotations: Annotations =
        serde_json::from_value(json!({"lastModified": note.updated_at.to_string()}))
            .expect("annotations of one known field can be read");
    Resource::new(note_uri(note.id), title.clone().into_owned())
        .with_title(title.into_owned())
        .with_mime_type(MARKDOWN)
        .with_size(note.size_bytes)
        .with_annotations(annotations)
}

/// The templates: notes, of which the list shows a page at a time, and jobs, which it leaves out.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(NOTE_TEMPLATE, "note")
            .with_title("A note")
            .with_description("One note as Markdown, by its id")
            .with_mime_type(MARKDOWN),
        ResourceTemplate::new(JOB_TEMPLATE, "job")
            .with_title("A job")
            .with_description("How far a job is, by the job_id that reindex_notes gave")
            .with_mime_type(JSON),
    ]
}

/// The contents of a resource.
///
/// # Errors
///
/// "Resource not found" in the words of the newest handshake; rmcp translates it for later
/// revisions.
pub(crate) fn read(engine: &Engine, uri: &str) -> Result<ResourceContents, ErrorData> {
    let missing = |error: EngineError| match error {
        EngineError::NotFound { .. } | EngineError::Trashed { .. } | EngineError::NoJob { .. } => {
            not_found(uri, &error.to_string())
        }
        error => Fault::from(error).into_protocol_error(),
    };
    let json = |value: serde_json::Result<String>| match value {
        Ok(text) => Ok(text_contents(uri, JSON, text)),
        Err(error) => Err(Fault::defect("writing a resource", &error).into_protocol_error()),
    };
    match address(uri)? {
        Address::Status => json(serde_json::to_string_pretty(&tools::status(engine)?)),
        Address::Job(id) => {
            let job = tools::JobAnswer::from(engine.job(id).map_err(missing)?);
            json(serde_json::to_string_pretty(&job))
        }
        Address::Note(id) => {
            let note = engine.get_note(id).map_err(missing)?;
            Ok(text_contents(uri, MARKDOWN, note.content))
        }
    }
}

/// What a uri leads to, if it leads anywhere.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn find(engine: &Engine, uri: &str) -> Result<Address, ErrorData> {
    read(engine, uri)?;
    address(uri)
}

fn address(uri: &str) -> Result<Address, ErrorData> {
    let reason = "is no resource of this server; notes are `note://` and an id";
    Address::parse(uri).ok_or_else(|| not_found(uri, reason))
}

/// Text of a resource with its own media type.
pub(crate) fn text_contents(uri: &str, mime_type: &str, text: String) -> ResourceContents {
    ResourceContents::TextResourceContents {
        uri: uri.to_owned(),
        mime_type: Some(mime_type.to_owned()),
        text,
        meta: None,
    }
}

fn not_found(uri: &str, reason: &str) -> ErrorData {
    ErrorData::resource_not_found(
        "resource not found",
        Some(json!({"uri": uri, "field": "uri", "reason": reason, "retryable": false})),
    )
}

/// Values that begin as the user's do, at most as many as the protocol allows. Each template and
/// prompt has one argument, so what else the user has filled in narrows nothing down.
///
/// # Errors
///
/// Invalid parameters for a reference or an argument that does not exist.
pub(crate) fn complete(
    engine: &Engine,
    reference: &Reference,
    argument: &ArgumentInfo,
) -> Result<CompletionInfo, ErrorData> {
    let text = argument.value.as_str();
    let wanted = match (reference.as_resource_uri(), reference.as_prompt_name()) {
        (Some(NOTE_TEMPLATE | JOB_TEMPLATE), _) if argument.name != "id" => {
            return Err(invalid_params("argument.name", "must be `id`"));
        }
        (Some(NOTE_TEMPLATE), _) => Completion::NoteId,
        (Some(JOB_TEMPLATE), _) => Completion::JobId,
        (_, Some(name)) => prompts::completion(name, &argument.name)?,
        _ => {
            let reason = format!("must be `{NOTE_TEMPLATE}` or `{JOB_TEMPLATE}`");
            return Err(invalid_params("ref.uri", reason));
        }
    };
    let mut values = match wanted {
        Completion::NoteId => ids(engine, text),
        Completion::JobId => job_ids(engine, text),
        Completion::Tag => tags(engine, text),
        Completion::Date => Ok(dates(text)),
    }?;
    let has_more = values.len() > CompletionInfo::MAX_VALUES;
    values.truncate(CompletionInfo::MAX_VALUES);
    CompletionInfo::with_pagination(values, None, has_more)
        .map_err(|error| Fault::defect("completing", &error).into_protocol_error())
}

/// What an argument can be completed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completion {
    NoteId,
    JobId,
    Tag,
    Date,
}

/// Ids of the notes whose id or title is like `text`.
fn ids(engine: &Engine, text: &str) -> Result<Vec<String>, Fault> {
    let notes = engine.notes_like(text, CompletionInfo::MAX_VALUES + 1)?;
    Ok(notes.into_iter().map(|note| note.id.to_string()).collect())
}

/// Jobs, the newest first.
fn job_ids(engine: &Engine, text: &str) -> Result<Vec<String>, Fault> {
    let jobs = engine.jobs(CompletionInfo::MAX_VALUES + 1)?.into_iter();
    let ids = jobs.map(|job| job.id.to_string());
    Ok(ids.filter(|id| id.starts_with(text.trim())).collect())
}

/// The last week and the first of each of the last months, the newest first.
fn dates(text: &str) -> Vec<String> {
    let today = Timestamp::now().to_zoned_datetime(TimeZone::UTC).date();
    let days = (0..=7).map(|n_days| today.saturating_sub(n_days.days()));
    let months = (0..12).map(|n_months| today.first_of_month().saturating_sub(n_months.months()));
    let mut dates: Vec<Date> = days.chain(months).collect();
    dates.sort_unstable_by(|a, b| b.cmp(a));
    dates.dedup();
    let dates = dates.into_iter().map(|date| date.to_string());
    dates.filter(|date| date.starts_with(text.trim())).collect()
}

fn tags(engine: &Engine, text: &str) -> Result<Vec<String>, Fault> {
    let begin = text.trim().to_lowercase();
    let tags = engine.tags()?.into_iter().map(|tag| tag.name);
    Ok(tags
        .filter(|tag| tag.to_lowercase().starts_with(&begin))
        .take(CompletionInfo::MAX_VALUES + 1)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_as_it_is_written() {
        for uri in ["pkm://status", "note://7", "pkm://jobs/12"] {
            assert_eq!(Address::parse(uri).unwrap().to_string(), uri);
        }
        assert_eq!(Address::parse("note://7/"), Some(Address::Note(NoteId(7))));
        for uri in [
            "",
            "note://",
            "note://x",
            "pkm://jobs/",
            "pkm://jobs",
            "file:///a",
            "status",
        ] {
            assert_eq!(Address::parse(uri), None, "{uri}");
        }
    }

    #[test]
    fn dates_are_offered_newest_first_and_each_once() {
        let all = dates("");
        assert!(
            all.is_sorted_by(|a, b| a > b) && (12..=20).contains(&all.len()),
            "{all:?}"
        );
        let first = &all[0];
        assert_eq!(dates(first)[..], *std::slice::from_ref(first));
        assert_eq!(dates("yesterday"), [""; 0]);
    }

    #[test]
    fn a_missing_resource_names_its_uri() {
        let error = not_found("note://7", "there is no note 7");
        assert_eq!(error.code.0, -32002);
        let data = error.data.unwrap();
        assert_eq!(
            (&data["uri"], &data["field"]),
            (&json!("note://7"), &json!("uri"))
        );
    }
}
