//! The check of a tool's arguments against its schema, with the field and the reason of what is
//! wrong.

use rmcp::model::JsonObject;
use serde_json::Value;

/// What is wrong with an argument.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadArgument {
    /// Such as `limit`, `tags[2]`, `replace.find`.
    pub(crate) field: String,
    /// To be read after the field's name.
    pub(crate) reason: String,
}

/// Checks `arguments` against a schema made by [`crate::schema::of_arguments`], and puts right what means only
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
        if (name == "id" || name.ends_with("_id"))
            && property
                .get("type")
                .is_some_and(|wanted| wanted == "integer")
        {
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
    use serde_json::json;

    use super::*;

    fn sample() -> JsonObject {
        let schema = json!({
            "type": "object",
            "required": ["query"],
            "properties": {
                "query": {"type": "string", "minLength": 1},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50},
                "id": {"type": "integer"},
                "score": {"type": "number"},
                "mode": {"type": "string", "enum": ["hybrid", "vector"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "replace": {
                    "type": "object",
                    "required": ["find"],
                    "properties": {"find": {"type": "string"}},
                },
            },
        });
        schema.as_object().unwrap().clone()
    }

    #[track_caller]
    fn refused(arguments: Value, field: &str, reason: &str) {
        let Value::Object(mut arguments) = arguments else {
            panic!("not an object")
        };
        let found = check(&sample(), &mut arguments).expect_err("an argument is wrong");
        assert_eq!(
            (found.field.as_str(), found.reason.as_str()),
            (field, reason)
        );
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
        let mut arguments = json!({"query": "a", "id": "12", "limit": 10.0, "mode": null})
            .as_object()
            .unwrap()
            .clone();
        check(&sample(), &mut arguments).unwrap();
        assert_eq!(
            Value::Object(arguments),
            json!({"query": "a", "id": 12, "limit": 10})
        );
    }

    #[test]
    fn an_id_that_is_a_string_by_its_schema_stays_one() {
        let schema = json!({"type": "object", "properties": {"id": {"type": "string"}}});
        let mut arguments = json!({"id": "12"}).as_object().unwrap().clone();
        check(schema.as_object().unwrap(), &mut arguments).unwrap();
        assert_eq!(Value::Object(arguments), json!({"id": "12"}));
    }
}
