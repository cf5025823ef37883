use rmcp::model::{ProtocolVersion, Tool};
use serde_json::{Value, json};

use crate::support::{Home, Model, session, session_of};

#[tokio::test]
async fn the_tools_are_those_of_the_contract() {
    let tools = session().await.client.list_tools(None).await.unwrap().tools;
    insta::assert_json_snapshot!("tools", tools);
}

#[tokio::test]
async fn all_tools_together_cost_a_model_little() {
    let tools = session().await.client.list_tools(None).await.unwrap().tools;
    let size = serde_json::to_string(&tools).unwrap().len();
    assert!(size < 29_000, "{size} bytes");
}

#[tokio::test]
async fn schemas_have_nothing_that_converters_refuse() {
    let home = Home::with_connector_tools();
    let session = home.connect(ProtocolVersion::V_2025_11_25).await;
    let tools = session.client.list_tools(None).await.unwrap().tools;
    for tool in &tools {
        let output = tool.output_schema.as_ref().unwrap();
        for schema in [&tool.input_schema, output] {
            let text = serde_json::to_string(&**schema).unwrap();
            for word in [
                "$schema",
                "$ref",
                "$defs",
                "null",
                "\"format\"",
                "oneOf",
                "\"title\":\"",
            ] {
                assert!(!text.contains(word), "{word} in {}: {text}", tool.name);
            }
        }
        assert_eq!(
            tool.input_schema["additionalProperties"], false,
            "{}",
            tool.name
        );
        assert_eq!(
            tool.annotations.as_ref().unwrap().open_world_hint,
            Some(false)
        );
        assert!(tool.title.is_some() && tool.description.as_ref().unwrap().len() > 40);
    }
}

/// Whether `value` has the properties that `schema` requires, of the types that it names.
fn check_against(schema: &Value, value: &Value, at: &str) {
    if let Some(wanted) = schema["type"].as_str() {
        let fits = match wanted {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            other => panic!("{at}: type {other}"),
        };
        assert!(fits, "{at}: {value} is no {wanted}");
    }
    if let Some(allowed) = schema["enum"].as_array() {
        assert!(
            allowed.contains(value),
            "{at}: {value} is not in {allowed:?}"
        );
    }
    let has_all = |branch: &Value| {
        let names = branch["required"].as_array().cloned().unwrap_or_default();
        names
            .iter()
            .all(|name| value.get(name.as_str().unwrap()).is_some())
    };
    assert!(
        has_all(schema),
        "{at}: {value} lacks something of {}",
        schema["required"]
    );
    if let Some(branches) = schema["anyOf"].as_array() {
        assert!(branches.iter().any(has_all), "{at}: {value} fits no branch");
    }
    if let (Some(properties), Some(object)) = (schema["properties"].as_object(), value.as_object())
    {
        for (name, inner) in object {
            if let Some(property) = properties.get(name) {
                check_against(property, inner, &format!("{at}.{name}"));
            }
        }
    }
    if let Some(items) = value.as_array() {
        items
            .iter()
            .for_each(|item| check_against(&schema["items"], item, &format!("{at}[]")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_and_every_refusal_fits_its_output_schema() {
    for model in [Model::Hash, Model::Absent] {
        let session = session_of(ProtocolVersion::V_2025_11_25, model).await;
        let tools = session.client.list_tools(None).await.unwrap().tools;
        session.add("One", "# a\nflour and water").await;
        session.add("Two", "flour and salt").await;
        let mut called = Vec::new();
        for (tool, arguments) in [
            (
                "add_note",
                json!({"title": "Three", "content": "text", "tags": ["t"]}),
            ),
            ("search_notes", json!({"query": "flour"})),
            ("semantic_search_notes", json!({"query": "flour"})),
            (
                "semantic_search_notes",
                json!({"query": "flour", "mode": "vector"}),
            ),
            ("semantic_search_notes", json!({"query": " "})),
            ("related_notes", json!({"id": 1})),
            ("get_note", json!({"id": 1})),
            ("get_note", json!({"id": 404})),
            ("list_notes", json!({"limit": 1})),
            ("update_note", json!({"id": 1, "append": "x"})),
            (
                "update_note",
                json!({"id": 1, "append": "x", "expected_revision": 1}),
            ),
            ("delete_note", json!({"id": 1})),
            ("restore_note", json!({"id": 1})),
            ("delete_note", json!({"id": 2})),
            ("empty_trash", json!({})),
            ("empty_trash", json!({"confirm": 1})),
            ("empty_trash", json!({"confirm": 1})),
            ("reindex_notes", json!({"wait_seconds": 55})),
            ("job_status", json!({"job_id": 1})),
            ("index_status", json!({})),
        ] {
            let definition: &Tool = tools
                .iter()
                .find(|definition| definition.name == tool)
                .unwrap();
            let result = session.call(tool, arguments).await.unwrap();
            let schema = Value::Object((**definition.output_schema.as_ref().unwrap()).clone());
            check_against(&schema, &result.structured_content.unwrap(), tool);
            called.push(tool);
        }
        assert!(tools.iter().all(|tool| called.contains(&&*tool.name)));
    }
}

#[tokio::test]
async fn a_revision_without_a_handshake_names_the_server_on_each_result() {
    let session = session_of(ProtocolVersion::V_2026_07_28, Model::Hash).await;
    let name = |meta: Option<rmcp::model::MetaObject>| {
        meta.unwrap()["io.modelcontextprotocol/serverInfo"]["name"].clone()
    };
    assert_eq!(
        name(session.client.list_tools(None).await.unwrap().meta),
        "pkm"
    );
    assert_eq!(
        name(session.call("index_status", json!({})).await.unwrap().meta),
        "pkm"
    );
    assert_eq!(
        name(
            session
                .call("get_note", json!({"id": 404}))
                .await
                .unwrap()
                .meta
        ),
        "pkm"
    );
    let legacy = session_of(ProtocolVersion::V_2025_11_25, Model::Hash).await;
    assert_eq!(
        legacy.call("index_status", json!({})).await.unwrap().meta,
        None
    );
}
