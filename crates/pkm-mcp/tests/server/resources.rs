use rmcp::{
    ServiceError,
    model::{
        ContentBlock, ErrorCode, ErrorData, GetPromptRequestParams, PaginatedRequestParams,
        ProtocolVersion, ReadResourceRequestParams, ResourceContents,
    },
};
use serde_json::{Value, json};

use crate::support::{Model, Session, session, session_of};

fn protocol_error<T: std::fmt::Debug>(outcome: Result<T, ServiceError>) -> ErrorData {
    match outcome {
        Err(ServiceError::McpError(error)) => error,
        other => panic!("no error of the protocol: {other:?}"),
    }
}

async fn text_at(session: &Session, uri: &str) -> (String, String) {
    let read = session
        .client
        .read_resource(ReadResourceRequestParams::new(uri))
        .await
        .unwrap();
    match &read.contents[0] {
        ResourceContents::TextResourceContents {
            text, mime_type, ..
        } => (text.clone(), mime_type.clone().unwrap()),
        other => panic!("no text: {other:?}"),
    }
}

#[tokio::test]
async fn notes_are_resources_newest_first_page_by_page() {
    let session = session_of(ProtocolVersion::V_2025_11_25, Model::Absent).await;
    for number in 0..60 {
        session.add(&format!("n{number}"), "text").await;
    }
    let mut uris = Vec::new();
    let mut request = None;
    loop {
        let page = session.client.list_resources(request).await.unwrap();
        uris.extend(page.resources.into_iter().map(|resource| resource.uri));
        let Some(cursor) = page.next_cursor else {
            break;
        };
        request = Some(PaginatedRequestParams::default().with_cursor(Some(cursor)));
    }
    let expected: Vec<_> = std::iter::once("pkm://status".to_owned())
        .chain((1..=60).rev().map(|id| format!("note://{id}")))
        .collect();
    assert_eq!(uris, expected);
}

#[tokio::test]
async fn a_resource_is_the_note_itself() {
    let session = session().await;
    let id = session.add("One", "# 제목\r\ntext").await;
    let (text, mime_type) = text_at(&session, &format!("note://{id}")).await;
    assert_eq!(
        (text.as_str(), mime_type.as_str()),
        ("# 제목\r\ntext", "text/markdown")
    );
    let (text, mime_type) = text_at(&session, "pkm://status").await;
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&status["notes"], mime_type.as_str()),
        (&json!(1), "application/json")
    );
    let templates = session
        .client
        .list_resource_templates(None)
        .await
        .unwrap()
        .resource_templates;
    assert_eq!(templates[0].uri_template, "note://{id}");
}

#[tokio::test]
async fn a_missing_resource_has_the_code_of_its_revision() {
    for (revision, code) in [
        (ProtocolVersion::V_2025_06_18, ErrorCode::RESOURCE_NOT_FOUND),
        (ProtocolVersion::V_2025_11_25, ErrorCode::RESOURCE_NOT_FOUND),
        (ProtocolVersion::V_2026_07_28, ErrorCode::INVALID_PARAMS),
    ] {
        let session = session_of(revision, Model::Hash).await;
        for uri in ["note://404", "note://x", "file:///etc/passwd"] {
            let read = session
                .client
                .read_resource(ReadResourceRequestParams::new(uri))
                .await;
            let error = protocol_error(read);
            assert_eq!(
                (error.code, &error.data.unwrap()["uri"]),
                (code, &json!(uri))
            );
        }
    }
}

#[tokio::test]
async fn a_cursor_that_is_not_ours_is_refused() {
    let session = session().await;
    let request = || Some(PaginatedRequestParams::default().with_cursor(Some("not ours".into())));
    for error in [
        protocol_error(session.client.list_tools(request()).await),
        protocol_error(session.client.list_resources(request()).await),
        protocol_error(session.client.list_resource_templates(request()).await),
        protocol_error(session.client.list_prompts(request()).await),
    ] {
        assert_eq!(
            (error.code, &error.data.unwrap()["field"]),
            (ErrorCode::INVALID_PARAMS, &json!("cursor"))
        );
    }
}

#[tokio::test]
async fn ids_are_completed_from_ids_and_titles() {
    let session = session().await;
    let id = session.add("김치찌개", "두부").await;
    session.add("Kyoto", "maple").await;
    let complete = async |argument: &str, value: &str| {
        session
            .client
            .complete_resource_argument("note://{id}", argument, value, None)
            .await
    };
    assert_eq!(
        complete("id", "김치").await.unwrap().values,
        [id.to_string()]
    );
    assert_eq!(
        complete("id", &id.to_string()).await.unwrap().values,
        [id.to_string()]
    );
    assert_eq!(complete("id", "").await.unwrap().values.len(), 2);
    assert_eq!(
        protocol_error(complete("title", "x").await).code,
        ErrorCode::INVALID_PARAMS
    );
    let note_ids = session
        .client
        .complete_prompt_argument("find_connections", "note_id", "kyo", None)
        .await
        .unwrap();
    assert_eq!(note_ids.values, ["2"]);
    let unknown = session
        .client
        .complete_prompt_argument("no_such_prompt", "x", "", None)
        .await;
    assert_eq!(protocol_error(unknown).code, ErrorCode::INVALID_PARAMS);
}

async fn prompt(
    session: &Session,
    name: &str,
    arguments: Value,
) -> Result<(String, Vec<String>), ServiceError> {
    let Value::Object(arguments) = arguments else {
        panic!("arguments are an object")
    };
    let request = GetPromptRequestParams::new(name).with_arguments(arguments);
    let messages = session.client.get_prompt(request).await?.messages;
    let ContentBlock::Text(instruction) = &messages[0].content else {
        panic!("no instruction")
    };
    let embedded = messages[1..]
        .iter()
        .map(|message| match &message.content {
            ContentBlock::Resource(embedded) => embedded.get_text(),
            other => panic!("no note: {other:?}"),
        })
        .collect();
    Ok((instruction.text.clone(), embedded))
}

#[tokio::test]
async fn prompts_embed_the_notes_they_are_about() {
    let session = session().await;
    let id = session.add("Bread", "flour and water and salt").await;
    session.add("More bread", "flour and water and yeast").await;
    for (name, arguments) in [
        ("summarize_topic", json!({"topic": "flour"})),
        ("find_connections", json!({"note_id": id.to_string()})),
        ("weekly_review", json!({"since": "2020-01-01"})),
        ("weekly_review", json!({})),
    ] {
        let (instruction, embedded) = prompt(&session, name, arguments).await.unwrap();
        assert!(!instruction.is_empty());
        assert_eq!(embedded.len(), 2, "{name}: {embedded:?}");
        assert!(
            embedded
                .iter()
                .any(|text| text.contains("# Bread") && text.contains("salt")),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_prompt_stays_within_bounds_and_says_what_it_left_out() {
    let session = session_of(ProtocolVersion::V_2025_11_25, Model::Absent).await;
    let long = "긴 글이 이어진다.\n".repeat(5_000);
    for number in 0..10 {
        session.add(&format!("주제 {number}"), &long).await;
    }
    let (instruction, embedded) = prompt(&session, "summarize_topic", json!({"topic": "글이"}))
        .await
        .unwrap();
    let size = instruction.len() + embedded.iter().map(String::len).sum::<usize>();
    assert!(size < 60_000, "{size}");
    assert!(
        embedded
            .iter()
            .all(|text| text.contains("[cut here; note://")),
        "{embedded:?}"
    );
}

#[tokio::test]
async fn a_prompt_with_a_wrong_argument_is_refused() {
    let session = session().await;
    for (name, arguments, field) in [
        ("no_such_prompt", json!({}), "name"),
        ("summarize_topic", json!({}), "topic"),
        ("summarize_topic", json!({"topic": " "}), "topic"),
        (
            "summarize_topic",
            json!({"topic": "a", "tone": "dry"}),
            "tone",
        ),
        ("find_connections", json!({"note_id": "404"}), "note_id"),
        ("find_connections", json!({"note_id": "first"}), "note_id"),
        ("weekly_review", json!({"since": "lately"}), "since"),
    ] {
        let error = protocol_error(prompt(&session, name, arguments).await);
        assert_eq!(
            (error.code, &error.data.unwrap()["field"]),
            (ErrorCode::INVALID_PARAMS, &json!(field))
        );
    }
}
