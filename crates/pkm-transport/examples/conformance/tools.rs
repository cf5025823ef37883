//! The tools of the fixtures: what they are called, and those that answer in one go.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolResult, JsonObject, LoggingLevel, LoggingMessageNotificationParam,
        ProgressNotificationParam, ProtocolVersion, ServerRequest, Tool,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    content::{PIXEL_PNG, SILENCE_WAV},
    questions::needs_sampling,
    server::{Change, Fixtures, wire},
};

/// Between two notifications of one call, so that they arrive one by one.
const STEP: Duration = Duration::from_millis(50);

/// Name and string arguments of each tool whose schema is no more than that.
const PLAIN: &[(&str, &[&str])] = &[
    // The suite calls the first tool of the list, whichever it is, to see what it does to headers.
    ("test_simple_text", &[]),
    ("confirm_delete", &["filename"]),
    ("failing_job", &[]),
    ("greet", &["name"]),
    ("multi_input", &[]),
    ("protocol_error_job", &[]),
    ("test_audio_content", &[]),
    ("test_elicitation", &["message"]),
    ("test_elicitation_sep1034_defaults", &[]),
    ("test_elicitation_sep1330_enums", &[]),
    ("test_embedded_resource", &[]),
    ("test_error_handling", &[]),
    ("test_image_content", &[]),
    ("test_input_required_result_capabilities", &[]),
    ("test_input_required_result_elicitation", &[]),
    ("test_input_required_result_list_roots", &[]),
    ("test_input_required_result_multi_round", &[]),
    ("test_input_required_result_multiple_inputs", &[]),
    ("test_input_required_result_request_state", &[]),
    ("test_input_required_result_sampling", &[]),
    ("test_input_required_result_tampered_state", &[]),
    ("test_logging_tool", &[]),
    ("test_missing_capability", &[]),
    ("test_multiple_content_types", &[]),
    ("test_reconnection", &[]),
    ("test_sampling", &["prompt"]),
    ("test_streaming_elicitation", &[]),
    ("test_tool_with_logging", &[]),
    ("test_tool_with_progress", &[]),
    ("test_tool_with_task", &[]),
    ("test_trigger_prompt_change", &[]),
    ("test_trigger_tool_change", &[]),
];

/// All tools.
pub(crate) static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let plain = PLAIN.iter().map(|(name, arguments)| {
        let properties: JsonObject = arguments
            .iter()
            .map(|argument| ((*argument).to_owned(), json!({"type": "string"})))
            .collect();
        (
            *name,
            json!({"type": "object", "properties": properties, "required": arguments}),
        )
    });
    plain
        .chain([
            ("json_schema_2020_12_tool", dialect()),
            (
                "slow_compute",
                json!({"type": "object", "properties": {
                    "seconds": {"type": "number", "minimum": 0}, "label": {"type": "string"},
                }}),
            ),
            (
                "test_custom_header",
                json!({"type": "object", "required": ["value"], "properties": {
                    "value": {"type": "string", "x-mcp-header": "Value"},
                }}),
            ),
        ])
        .filter_map(|(name, schema)| match schema {
            Value::Object(schema) => {
                let description = "A fixture of the conformance suite";
                Some(Tool::new(name, description, Arc::new(schema)))
            }
            _ => None,
        })
        .collect()
});

/// A schema with the words of 2020-12 that must reach the client as they are.
fn dialect() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

/// Calls the tool; `None` when there is none of this name that answers in one go.
pub(crate) async fn call(
    fixtures: &Fixtures,
    name: &str,
    arguments: &JsonObject,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResult, ErrorData>> {
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or("");
    Some(match name {
        "greet" => answer(&json!([text(&format!("Hello, {}!", argument("name")))])),
        "json_schema_2020_12_tool" | "test_custom_header" => answer(&json!([text("accepted")])),
        "test_simple_text" => answer(&json!([text(
            "This is a simple text response for testing."
        )])),
        "test_image_content" => answer(&json!([image()])),
        "test_audio_content" => answer(&json!([
            {"type": "audio", "data": SILENCE_WAV, "mimeType": "audio/wav"}
        ])),
        "test_embedded_resource" => answer(&json!([resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )])),
        "test_multiple_content_types" => answer(&json!([
            text("Multiple content types test:"),
            image(),
            resource(
                "test://mixed-content-resource",
                "application/json",
                &json!({"test": "data", "value": 123}).to_string(),
            ),
        ])),
        "test_error_handling" => wire(json!({
            "resultType": "complete",
            "content": [text("This tool intentionally returns an error for testing")],
            "isError": true,
        })),
        "test_tool_with_progress" => with_progress(context).await,
        "test_tool_with_logging" | "test_logging_tool" => with_logging(context).await,
        // The suite would like the stream to break here; a tool cannot reach the stream it is sent on.
        "test_reconnection" => {
            sleep(STEP).await;
            answer(&json!([text("answered on the first stream")]))
        }
        "test_missing_capability" => {
            let declared = context
                .client_capabilities()
                .is_some_and(|capabilities| capabilities.sampling.is_some());
            if declared {
                answer(&json!([text("sampling is declared")]))
            } else {
                needs_sampling().and_then(Err)
            }
        }
        "test_trigger_tool_change" => changed(fixtures, Change::Tools),
        "test_trigger_prompt_change" => changed(fixtures, Change::Prompts),
        "test_sampling" => {
            let message =
                json!({"role": "user", "content": {"type": "text", "text": argument("prompt")}});
            let params = json!({"messages": [message], "maxTokens": 100});
            let said = ask(context, "sampling/createMessage", params).await;
            said.and_then(|said| {
                let said = said["content"]["text"].as_str().unwrap_or("nothing");
                answer(&json!([text(&format!("LLM response: {said}"))]))
            })
        }
        "test_elicitation" => {
            let schema = json!({"type": "object", "required": ["username", "email"], "properties": {
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            }});
            elicit(context, argument("message"), schema, "User response").await
        }
        "test_elicitation_sep1034_defaults" => {
            let schema = json!({"type": "object", "properties": {
                "name": {"type": "string", "default": "John Doe"},
                "age": {"type": "integer", "default": 30},
                "score": {"type": "number", "default": 95.5},
                "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
                "verified": {"type": "boolean", "default": true},
            }});
            elicit(context, "All defaults?", schema, "Elicitation completed").await
        }
        "test_elicitation_sep1330_enums" => {
            let titled = json!([
                {"const": "value1", "title": "First"},
                {"const": "value2", "title": "Second"},
                {"const": "value3", "title": "Third"},
            ]);
            let plain = json!(["option1", "option2", "option3"]);
            let schema = json!({"type": "object", "properties": {
                "untitledSingle": {"type": "string", "enum": plain},
                "titledSingle": {"type": "string", "oneOf": titled},
                "legacyEnum": {
                    "type": "string", "enum": ["opt1", "opt2"], "enumNames": ["One", "Two"],
                },
                "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
                "titledMulti": {"type": "array", "items": {"anyOf": titled}},
            }});
            elicit(context, "Which ones?", schema, "Elicitation completed").await
        }
        _ => return None,
    })
}

fn answer(content: &Value) -> Result<CallToolResult, ErrorData> {
    wire(json!({"resultType": "complete", "content": content}))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image() -> Value {
    json!({"type": "image", "data": PIXEL_PNG, "mimeType": "image/png"})
}

fn resource(uri: &str, mime_type: &str, text: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}})
}

fn changed(fixtures: &Fixtures, change: Change) -> Result<CallToolResult, ErrorData> {
    fixtures.announce(change);
    answer(&json!([text("announced")]))
}

async fn with_progress(context: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
    let token = context.meta.get_progress_token();
    for (turn, percent) in [0.0, 50.0, 100.0].into_iter().enumerate() {
        if turn > 0 {
            sleep(STEP).await;
        }
        if let Some(token) = token.clone() {
            let progress = ProgressNotificationParam::new(token, percent).with_total(100.0);
            let sent = context.peer.notify_progress(progress).await;
            sent.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        }
    }
    answer(&json!([text("three steps")]))
}

/// From 2026-07-28 a message is sent only to a request that asked for its level.
async fn with_logging(context: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
    let modern = context
        .protocol_version()
        .is_some_and(|revision| revision >= ProtocolVersion::V_2026_07_28);
    let wanted = match context.meta.log_level() {
        Some(level) => matches!(level, LoggingLevel::Debug | LoggingLevel::Info),
        None => !modern,
    };
    let messages = [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ];
    for (turn, message) in messages.into_iter().enumerate() {
        if turn > 0 {
            sleep(STEP).await;
        }
        if wanted {
            let sent = context
                .peer
                .notify_logging_message(LoggingMessageNotificationParam::new(
                    LoggingLevel::Info,
                    json!(message),
                ))
                .await;
            sent.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        }
    }
    answer(&json!([text("three messages")]))
}

/// Asks a client of an older revision, in the middle of the call, and waits for what it says.
async fn ask(
    context: &RequestContext<RoleServer>,
    method: &str,
    params: Value,
) -> Result<Value, ErrorData> {
    let request: ServerRequest = wire(json!({"method": method, "params": params}))?;
    let answer = context.peer.send_request(request).await;
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    serde_json::to_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

async fn elicit(
    context: &RequestContext<RoleServer>,
    message: &str,
    schema: Value,
    lead: &str,
) -> Result<CallToolResult, ErrorData> {
    let params = json!({"message": message, "requestedSchema": schema});
    let said = ask(context, "elicitation/create", params).await?;
    let action = said["action"].as_str().unwrap_or("none");
    let line = format!("{lead}: action={action}, content={}", said["content"]);
    answer(&json!([text(&line)]))
}
