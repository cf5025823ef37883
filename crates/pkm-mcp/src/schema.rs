//! JSON schemas of our types, in a form that every client's converter takes: no references, no
//! null unions, no number formats. And the check of arguments against such a schema.

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
        for (name, property) in [
            (
                "code",
                json!({"type": "string", "description": "Only in an error: its kind"}),
            ),
            (
                "message",
                json!({"type": "string", "description": "In an error: what went wrong and what to do"}),
            ),
            (
                "field",
                json!({"type": "string", "description": "Only in an error: the argument at fault"}),
            ),
            (
                "reason",
                json!({"type": "string", "description": "Only in an error: what is wrong with it"}),
            ),
            (
                "retryable",
                json!({"type": "boolean", "description": "Only in an error: whether the same call can succeed later"}),
            ),
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

/// What is wrong with an argument.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadArgument {
    /// Such as `limit`, `tags[2]`, `replace.find`.
    pub(crate) field: String,
    /// To be read after the field's name.
    pub(crate) reason: String,
}

/// Checks `arguments` against a schema made by [`of_arguments`], and puts right what means only
/// one thing: a null for an argument left out, an id written as a string, 10.0 for 10.
pub(crate) fn check(schema: &JsonObject, arguments: &mut JsonObject) -> Result<(), BadArgument> {
    check_object(schema, arguments, "")
}

fn check_object(
    schema: &JsonObject,
    object: &mut JsonObject,
    path: &str,
) -> Result<(), BadArgument> {
    let no_properties = JsonObject::new();
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&no_properties);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();

    object.retain(|name, value| !value.is_null() || required.contains(&name.as_str()));
    for name in &required {
        if object.get(*name).is_none_or(Value::is_null) {
            return Err(bad(join(path, name), "is required"));
        }
    }
    for (name, value) in object.iter_mut() {
        let field = join(path, name);
        let Some(property) = properties.get(name).and_then(Value::as_object) else {
            return Err(bad(
                field,
                format!("is not known here; known are {}", names(properties)),
            ));
        };
        if name == "id" || name.ends_with("_id") {
            number_from_string(value);
        }
        check_value(property, value, &field)?;
    }
    Ok(())
}

fn check_value(schema: &JsonObject, value: &mut Value, field: &str) -> Result<(), BadArgument> {
    let wanted = schema.get("type").and_then(Value::as_str).unwrap_or("any");
    if wanted == "integer"
        && let Some(float) = value.as_f64()
        && !value.is_i64()
        && !value.is_u64()
        && float.fract() == 0.0
        && float.abs() < 9.0e15
    {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole and below 2^53, just checked"
        )]
        let whole = float as i64;
        *value = whole.into();
    }
    let fits = match wanted {
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    if !fits {
        return Err(bad(
            field,
            format!("must be {}, not {}", with_article(wanted), kind(value)),
        ));
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed
            .iter()
            .filter_map(Value::as_str)
            .map(|name| format!("`{name}`"))
            .collect();
        return Err(bad(
            field,
            format!("is {value}; it must be one of {}", allowed.join(", ")),
        ));
    }
    check_range(schema, value, field)?;
    match value {
        Value::String(text) => {
            let n_min = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0);
            if n_min > 0 && text.is_empty() {
                return Err(bad(field, "must not be empty"));
            }
        }
        Value::Array(items) => {
            if let Some(n_max) = schema.get("maxItems").and_then(Value::as_u64)
                && items.len() as u64 > n_max
            {
                return Err(bad(
                    field,
                    format!("has {} items; at most {n_max} are taken", items.len()),
                ));
            }
            if let Some(inner) = schema.get("items").and_then(Value::as_object) {
                for (item_idx, item) in items.iter_mut().enumerate() {
                    check_value(inner, item, &format!("{field}[{item_idx}]"))?;
                }
            }
        }
        Value::Object(inner) => check_object(schema, inner, field)?,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

fn check_range(schema: &JsonObject, value: &Value, field: &str) -> Result<(), BadArgument> {
    let Some(number) = value.as_f64() else {
        return Ok(());
    };
    let (min, max) = (schema.get("minimum"), schema.get("maximum"));
    let below = min.and_then(Value::as_f64).is_some_and(|min| number < min);
    let above = max.and_then(Value::as_f64).is_some_and(|max| number > max);
    if !below && !above {
        return Ok(());
    }
    let rule = match (min, max) {
        (Some(min), Some(max)) => format!("from {min} to {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, Some(max)) => format!("at most {max}"),
        (None, None) => unreachable!("out of a range without bounds"),
    };
    Err(bad(field, format!("is {value}; it must be {rule}")))
}

/// Models write ids as strings now and then; the digits mean one thing only.
fn number_from_string(value: &mut Value) {
    if let Some(number) = value
        .as_str()
        .and_then(|text| text.trim().parse::<i64>().ok())
    {
        *value = number.into();
    }
}

fn bad(field: impl Into<String>, reason: impl Into<String>) -> BadArgument {
    BadArgument {
        field: field.into(),
        reason: reason.into(),
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn names(properties: &JsonObject) -> String {
    if properties.is_empty() {
        return "no arguments".into();
    }
    properties
        .keys()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn with_article(wanted: &str) -> String {
    let article = if wanted.starts_with(['a', 'i', 'o']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {wanted}")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
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

    #[track_caller]
    fn refused(arguments: Value, field: &str, reason: &str) {
        let schema = of_arguments::<Sample>();
        let Value::Object(mut arguments) = arguments else {
            panic!("not an object")
        };
        let found = check(&schema, &mut arguments).expect_err("an argument is wrong");
        assert_eq!(
            (found.field.as_str(), found.reason.as_str()),
            (field, reason)
        );
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

    #[test]
    fn each_kind_of_wrong_argument_is_named() {
        refused(json!({}), "query", "is required");
        refused(json!({"query": null}), "query", "is required");
        refused(json!({"query": ""}), "query", "must not be empty");
        refused(
            json!({"query": 5}),
            "query",
            "must be a string, not a number",
        );
        refused(
            json!({"query": "a", "limit": 0}),
            "limit",
            "is 0; it must be from 1 to 50",
        );
        refused(
            json!({"query": "a", "limit": 51}),
            "limit",
            "is 51; it must be from 1 to 50",
        );
        refused(
            json!({"query": "a", "limit": "5"}),
            "limit",
            "must be an integer, not a string",
        );
        refused(
            json!({"query": "a", "limit": 1.5}),
            "limit",
            "must be an integer, not a fraction",
        );
        refused(
            json!({"query": "a", "mode": "x"}),
            "mode",
            "is \"x\"; it must be one of `hybrid`, `vector`",
        );
        refused(
            json!({"query": "a", "tags": ["a", 1]}),
            "tags[1]",
            "must be a string, not a number",
        );
        refused(
            json!({"query": "a", "replace": {}}),
            "replace.find",
            "is required",
        );
        refused(
            json!({"query": "a", "replace": {"find": "a", "to": "b"}}),
            "replace.to",
            "is not known here; known are `find`",
        );
        refused(
            json!({"query": "a", "qeury": "b"}),
            "qeury",
            "is not known here; known are `query`, `limit`, `id`, `score`, `mode`, `tags`, `replace`",
        );
    }

    #[test]
    fn what_means_one_thing_only_is_put_right() {
        let schema = of_arguments::<Sample>();
        let mut arguments = json!({"query": "a", "id": "12", "limit": 10.0, "mode": null})
            .as_object()
            .unwrap()
            .clone();
        check(&schema, &mut arguments).unwrap();
        assert_eq!(
            Value::Object(arguments),
            json!({"query": "a", "id": 12, "limit": 10})
        );
    }
}
