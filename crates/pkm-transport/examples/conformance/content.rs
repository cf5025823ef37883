//! The resources and prompts of the fixtures, and the smallest image and sound there are.

use rmcp::{
    ErrorData,
    model::{JsonObject, Prompt, Resource, ResourceTemplate},
};
use serde_json::{Value, json};

use crate::server::wire;

/// One red pixel, as base64 of a PNG.
pub(crate) const PIXEL_PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";

/// A millisecond of silence, as base64 of a WAV with eight samples.
pub(crate) const SILENCE_WAV: &str =
    "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";

/// The resources that have a fixed address.
pub(crate) fn resources() -> Vec<Resource> {
    [
        ("test://static-text", "Static text", "text/plain"),
        ("test://static-binary", "Static image", "image/png"),
        ("test://watched-resource", "Watched", "text/plain"),
    ]
    .into_iter()
    .map(|(uri, name, mime_type)| {
        Resource::new(uri, name)
            .with_description("A fixture of the conformance suite")
            .with_mime_type(mime_type)
    })
    .collect()
}

/// The one template.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("test://template/{id}/data", "By id")
            .with_description("A fixture of the conformance suite")
            .with_mime_type("application/json"),
    ]
}

/// What stands at `uri`.
pub(crate) fn read(uri: &str) -> Option<Value> {
    Some(match uri {
        "test://static-text" => json!({
            "uri": uri, "mimeType": "text/plain",
            "text": "This is the content of the static text resource.",
        }),
        "test://static-binary" => json!({"uri": uri, "mimeType": "image/png", "blob": PIXEL_PNG}),
        "test://watched-resource" => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "watched"})
        }
        _ => {
            let id = uri
                .strip_prefix("test://template/")?
                .strip_suffix("/data")
                .filter(|id| !id.is_empty() && !id.contains('/'))?;
            let text =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": text.to_string()})
        }
    })
}

/// Name, description and required arguments of each prompt.
const PROMPTS: &[(&str, &str, &[&str])] = &[
    ("test_simple_prompt", "One line, no arguments", &[]),
    (
        "test_prompt_with_arguments",
        "Quotes its two arguments",
        &["arg1", "arg2"],
    ),
    (
        "test_prompt_with_embedded_resource",
        "Embeds a resource",
        &["resourceUri"],
    ),
    ("test_prompt_with_image", "Shows an image", &[]),
    (
        "test_input_required_result_prompt",
        "Asks for a context first",
        &[],
    ),
];

/// All prompts.
pub(crate) fn prompts() -> Result<Vec<Prompt>, ErrorData> {
    let prompts = PROMPTS.iter().map(|(name, description, arguments)| {
        let arguments: Vec<_> = arguments
            .iter()
            .map(|argument| json!({"name": argument, "description": "Any text", "required": true}))
            .collect();
        wire(json!({"name": name, "description": description, "arguments": arguments}))
    });
    prompts.collect()
}

/// The messages of the prompt `name`; `None` for one that is not there.
pub(crate) fn messages(name: &str, arguments: &JsonObject) -> Option<Value> {
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or("");
    let user = |content: Value| json!({"role": "user", "content": content});
    let text = |text: String| user(json!({"type": "text", "text": text}));
    Some(match name {
        "test_simple_prompt" => json!([text("This is a simple prompt for testing.".into())]),
        "test_prompt_with_arguments" => json!([text(format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            argument("arg1"),
            argument("arg2")
        ))]),
        "test_prompt_with_embedded_resource" => json!([
            user(json!({"type": "resource", "resource": {
                "uri": argument("resourceUri"), "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }})),
            text("Please process the embedded resource above.".into()),
        ]),
        "test_prompt_with_image" => json!([
            user(json!({"type": "image", "data": PIXEL_PNG, "mimeType": "image/png"})),
            text("Please analyze the image above.".into()),
        ]),
        _ => return None,
    })
}
