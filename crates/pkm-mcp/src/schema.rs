//! JSON schemas of our types, in a form that every client's converter takes: no references, no
//! null unions, no number formats.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

/// The schema of a tool's arguments.
pub(crate) fn of_arguments<T: JsonSchema>() -> Arc<JsonObject> {
    let mut schema = plain_root::<T>(SchemaSettings::draft2020_12().for_deserialize());
    // Absent for a type without fields, and some clients insist on it.
    schema.entry("properties").or_insert_with(|| json!({}));
    Arc::new(schema)
}

/// The schema of a tool's structured content: the answer, or the refusal of a call.
///
/// Clients check the structured content of errors against the output schema as well, so a schema
/// of the answer alone would turn each refusal into a protocol failure on their side.
pub(crate) fn of_answer<T: JsonSchema>() -> Arc<JsonObject> {
    let mut schema = plain_root::<T>(SchemaSettings::draft2020_12().for_serialize());
    let required = schema.remove("required").unwrap_or_else(|| json!([]));
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        // Said once: these stand in the schema of every tool, and a model pays for each word.
        let code = json!({"type": "string", "description": "Only in an error, as the next four"});
        for (name, property) in [
            ("code", code),
            ("message", json!({"type": "string"})),
            ("field", json!({"type": "string"})),
            ("reason", json!({"type": "string"})),
            ("retryable", json!({"type": "boolean"})),
        ] {
            properties.entry(name).or_insert(property);
        }
    }
    schema.insert(
        "anyOf".into(),
        json!([{ "required": required }, { "required": ["code", "message", "retryable"] }]),
    );
    Arc::new(schema)
}

fn plain_root<T: JsonSchema>(settings: SchemaSettings) -> JsonObject {
    let generator = settings
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .into_generator();
    let mut value = generator.into_root_schema_for::<T>().to_value();
    make_plain(&mut value);
    let Value::Object(mut schema) = value else {
        unreachable!("the schema of a struct is an object")
    };
    // The tool has a description of its own.
    schema.remove("description");
    schema
}

/// Rewrites what some converters refuse, here and below.
fn make_plain(value: &mut Value) {
    let Value::Object(schema) = value else { return };
    for key in ["$schema", "$defs", "title"] {
        schema.remove(key);
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if schema
        .get("type")
        .is_some_and(|name| name == "integer" || name == "number")
    {
        schema.remove("format");
    }
    for key in ["anyOf", "oneOf"] {
        flatten_union(schema, key);
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(make_plain);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key) {
            make_plain(inner);
        }
    }
}

/// Takes the null branch out of a union, and makes one list of a union of constants.
fn flatten_union(schema: &mut JsonObject, key: &str) {
    let Some(Value::Array(mut branches)) = schema.remove(key) else {
        return;
    };
    branches.retain(|branch| branch.get("type").is_none_or(|name| name != "null"));
    branches.iter_mut().for_each(make_plain);
    if branches
        .iter()
        .all(|branch| branch.get("const").is_some_and(Value::is_string))
    {
        let values = branches
            .iter()
            .map(|branch| branch["const"].clone())
            .collect();
        schema.insert("type".into(), "string".into());
        schema.insert("enum".into(), Value::Array(values));
        return;
    }
    match branches.as_mut_slice() {
        [Value::Object(only)] => {
            for (name, inner) in std::mem::take(only) {
                schema.entry(name).or_insert(inner);
            }
        }
        _ => {
            schema.insert(key.into(), Value::Array(branches));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Sample {
        /// What to look for.
        #[schemars(length(min = 1))]
        query: String,
        #[serde(default = "ten")]
        #[schemars(range(min = 1, max = 50))]
        limit: usize,
        id: Option<i64>,
        score: Option<f32>,
        mode: Option<Mode>,
        #[serde(default)]
        tags: Vec<String>,
        replace: Option<Inner>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        /// By words and by meaning.
        Hybrid,
        /// By meaning alone.
        Vector,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Inner {
        find: String,
    }

    fn ten() -> usize {
        10
    }

    #[test]
    fn a_schema_is_plain() {
        let text = serde_json::to_string(&*of_arguments::<Sample>()).unwrap();
        for word in [
            "$schema", "$ref", "$defs", "\"null\"", "null", "format", "title", "oneOf", "anyOf",
        ] {
            assert!(!text.contains(word), "`{word}` in {text}");
        }
        let schema = of_arguments::<Sample>();
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["required"], json!(["query"]));
        assert_eq!(
            schema["properties"]["limit"],
            json!({"type": "integer", "default": 10, "minimum": 1, "maximum": 50})
        );
        assert_eq!(
            schema["properties"]["mode"]["enum"],
            json!(["hybrid", "vector"])
        );
        assert_eq!(schema["properties"]["replace"]["type"], "object");
    }
}
