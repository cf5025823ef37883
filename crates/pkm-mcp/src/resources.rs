//! Notes as resources, and completion of their ids.

use pkm_engine::{Engine, Error as EngineError, Filter, ListRequest, NoteId, NoteSummary, Sort};
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
const STATUS_URI: &str = "pkm://status";
const MARKDOWN: &str = "text/markdown";
const JSON: &str = "application/json";
/// Notes on one page of the list.
const PAGE: usize = 50;
const TITLE_MAX_BYTES: usize = 240;

/// The uri under which a client can read a note.
pub(crate) fn note_uri(id: NoteId) -> String {
    format!("{NOTE_SCHEME}{id}")
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

/// The one template.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(NOTE_TEMPLATE, "note")
            .with_title("A note")
            .with_description("One note as Markdown, by its id")
            .with_mime_type(MARKDOWN),
    ]
}

/// The contents of a resource.
///
/// # Errors
///
/// "Resource not found" in the words of the newest handshake; rmcp translates it for later
/// revisions.
pub(crate) fn read(engine: &Engine, uri: &str) -> Result<ResourceContents, ErrorData> {
    if uri == STATUS_URI {
        let status = tools::status(engine).map_err(Fault::into_protocol_error)?;
        let text = serde_json::to_string_pretty(&status)
            .map_err(|error| Fault::defect("writing the status", &error).into_protocol_error())?;
        return Ok(text_contents(uri, JSON, text));
    }
    let id = uri
        .strip_prefix(NOTE_SCHEME)
        .map(|id| id.trim_end_matches('/'))
        .and_then(|id| id.parse().ok())
        .ok_or_else(|| {
            not_found(
                uri,
                "is no resource of this server; notes are `note://` and an id",
            )
        })?;
    match engine.get_note(NoteId(id)) {
        Ok(note) => Ok(text_contents(uri, MARKDOWN, note.content)),
        Err(error @ (EngineError::NotFound { .. } | EngineError::Trashed { .. })) => {
            Err(not_found(uri, &error.to_string()))
        }
        Err(error) => Err(Fault::from(error).into_protocol_error()),
    }
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

/// Values that begin as the user's do, at most as many as the protocol allows.
///
/// # Errors
///
/// Invalid parameters for a reference or an argument that does not exist.
pub(crate) fn complete(
    engine: &Engine,
    reference: &Reference,
    argument: &ArgumentInfo,
) -> Result<CompletionInfo, ErrorData> {
    let values = match (reference.as_resource_uri(), reference.as_prompt_name()) {
        (Some(NOTE_TEMPLATE), _) if argument.name == "id" => ids(engine, &argument.value),
        (Some(NOTE_TEMPLATE), _) => {
            return Err(invalid_params("argument.name", "must be `id`"));
        }
        (_, Some(name)) => match prompts::completion(name, &argument.name)? {
            prompts::Completion::NoteId => ids(engine, &argument.value),
            prompts::Completion::Tag => tags(engine, &argument.value),
            prompts::Completion::None => Ok(Vec::new()),
        },
        _ => {
            return Err(invalid_params(
                "ref.uri",
                format!("must be `{NOTE_TEMPLATE}`"),
            ));
        }
    };
    let mut values = values.map_err(Fault::into_protocol_error)?;
    let has_more = values.len() > CompletionInfo::MAX_VALUES;
    values.truncate(CompletionInfo::MAX_VALUES);
    CompletionInfo::with_pagination(values, None, has_more)
        .map_err(|error| Fault::defect("completing", &error).into_protocol_error())
}

/// Ids of the notes whose id or title is like `text`.
fn ids(engine: &Engine, text: &str) -> Result<Vec<String>, Fault> {
    let notes = engine.notes_like(text, CompletionInfo::MAX_VALUES + 1)?;
    Ok(notes.into_iter().map(|note| note.id.to_string()).collect())
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
