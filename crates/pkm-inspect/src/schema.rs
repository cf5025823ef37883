//! Tools: which there are, what they take and what they give.

use std::collections::BTreeMap;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

use crate::finding::Finding;
use crate::message::Message;
use crate::results;
use crate::text;

/// What `tools/call` may have in `params`, in one revision or another.
const CALL_PARAMS: &[&str] = &[
    "name",
    "arguments",
    "_meta",
    "task",
    "inputResponses",
    "requestState",
];

/// What people write for `arguments`.
const ARGUMENTS_MISNAMED: &[&str] = &[
    "args",
    "argument",
    "input",
    "inputs",
    "parameters",
    "params",
    "toolInput",
];

/// More violations of one schema are not listed.
const MAX_VIOLATIONS: usize = 8;

/// The tools of a server, from its `tools/list` or as known beforehand.
#[derive(Debug, Default)]
pub struct KnownTools {
    tools: BTreeMap<String, Tool>,
    /// There are no others.
    is_whole: bool,
}

#[derive(Debug, Default)]
struct Tool {
    /// The names of the arguments.
    arguments: Vec<String>,
    input: Option<Validator>,
    output: Option<Validator>,
}

impl KnownTools {
    /// From definitions as `tools/list` gives them; what is no definition is left out.
    pub fn from_definitions(definitions: &[Value]) -> Self {
        let mut known = Self::default();
        known.learn(definitions, Page::Only, &mut Vec::new());
        known
    }

    /// Takes a page of `tools/list`.
    pub(crate) fn learn(&mut self, definitions: &[Value], page: Page, findings: &mut Vec<Finding>) {
        if page.is_first() {
            self.tools.clear();
        }
        self.is_whole = page.is_last();
        for (i, definition) in definitions.iter().enumerate() {
            let field = format!("result.tools[{i}]");
            let Some(name) = definition.get("name").and_then(Value::as_str) else {
                findings.push(
                    Finding::error("tool_definition", "the tool has no `name`")
                        .at(format!("{field}.name")),
                );
                continue;
            };
            let tool = read_tool(definition, &field, findings);
            if self.tools.insert(name.to_owned(), tool).is_some() {
                findings.push(
                    Finding::error(
                        "tool_definition",
                        format!("there are two tools `{}`", text::cut(name, 80)),
                    )
                    .at(format!("{field}.name")),
                );
            }
        }
    }

    /// Checks a `tools/call`.
    pub(crate) fn check_call(
        &self,
        message: &Message<'_>,
        is_redacted: bool,
        findings: &mut Vec<Finding>,
    ) {
        let (Some(params), Some(name)) = (message.params, message.text("name")) else {
            return;
        };
        let tool = self.tools.get(name);
        if tool.is_none() && self.is_whole {
            let nearest = text::nearest(name, self.tools.keys().map(String::as_str));
            findings.push(
                Finding::error(
                    "tool_unknown",
                    format!("there is no tool `{}`", text::cut(name, 80)),
                )
                .at("params.name")
                .did_you_mean(nearest),
            );
        }
        let n_before = findings.len();
        check_place(params, tool, findings);
        let is_misplaced = findings.len() > n_before;
        let empty = Value::Object(Map::new());
        let arguments = params.get("arguments").unwrap_or(&empty);
        if !arguments.is_object() {
            let finding =
                Finding::error("arguments_type", "must be an object").at("params.arguments");
            let is_packed = |text: &str| {
                serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object())
            };
            findings.push(if arguments.as_str().is_some_and(is_packed) {
                finding.hint("it is an object written as a string; send the object itself")
            } else {
                finding
            });
            return;
        }
        // What is in the wrong place would be missed again in the right one.
        if !is_misplaced && let Some(input) = tool.and_then(|tool| tool.input.as_ref()) {
            let known: &[String] = tool.map_or(&[], |tool| &tool.arguments);
            let place = Place {
                code: "arguments_schema",
                field: "params.arguments",
                known,
                is_redacted,
            };
            place.check(input, arguments, findings);
        }
    }

    /// Checks the result of a call of `name`.
    pub(crate) fn check_result(
        &self,
        name: &str,
        result: &Map<String, Value>,
        is_redacted: bool,
        findings: &mut Vec<Finding>,
    ) {
        let is_error = result.get("isError").is_some_and(|flag| flag == true);
        if is_error || !results::is_complete(result) {
            return;
        }
        let Some(output) = self.tools.get(name).and_then(|tool| tool.output.as_ref()) else {
            return;
        };
        let Some(content) = result.get("structuredContent") else {
            findings.push(
                Finding::error(
                    "output_missing",
                    format!(
                        "`{}` has an output schema, and `structuredContent` is missing",
                        text::cut(name, 80)
                    ),
                )
                .at("result.structuredContent"),
            );
            return;
        };
        let place = Place {
            code: "output_schema",
            field: "result.structuredContent",
            known: &[],
            is_redacted,
        };
        place.check(output, content, findings);
    }
}

/// Which page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    Only,
    First,
    Middle,
    Last,
}

impl Page {
    pub(crate) fn new(is_first: bool, is_last: bool) -> Self {
        match (is_first, is_last) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, false) => Self::Middle,
            (false, true) => Self::Last,
        }
    }

    fn is_first(self) -> bool {
        matches!(self, Self::Only | Self::First)
    }

    fn is_last(self) -> bool {
        matches!(self, Self::Only | Self::Last)
    }
}

fn read_tool(definition: &Value, field: &str, findings: &mut Vec<Finding>) -> Tool {
    let mut validator = |which: &str| {
        let schema = definition.get(which)?;
        // Offline: a schema from the wire must not make us fetch anything.
        match jsonschema::options().offline().build(schema) {
            Ok(validator) => Some(validator),
            Err(error) => {
                findings.push(
                    Finding::error(
                        "tool_schema",
                        format!(
                            "`{which}` is no schema that can be used: {}",
                            text::cut(&error.to_string(), 200)
                        ),
                    )
                    .at(format!("{field}.{which}")),
                );
                None
            }
        }
    };
    let (input, output) = (validator("inputSchema"), validator("outputSchema"));
    if definition
        .pointer("/inputSchema/type")
        .is_none_or(|kind| kind != "object")
    {
        findings.push(
            Finding::error(
                "tool_schema",
                "`inputSchema` must be a schema of type `object`",
            )
            .at(format!("{field}.inputSchema")),
        );
    }
    let arguments = definition
        .pointer("/inputSchema/properties")
        .and_then(Value::as_object)
        .map(|properties| properties.keys().cloned().collect())
        .unwrap_or_default();
    Tool {
        arguments,
        input,
        output,
    }
}

/// Finds arguments that lie beside `arguments` instead of in it.
fn check_place(params: &Map<String, Value>, tool: Option<&Tool>, findings: &mut Vec<Finding>) {
    let has_arguments = params
        .get("arguments")
        .and_then(Value::as_object)
        .is_some_and(|arguments| !arguments.is_empty());
    for (name, value) in params {
        if CALL_PARAMS.contains(&name.as_str()) {
            continue;
        }
        let shown = text::cut(name, 80);
        let is_argument = tool.is_some_and(|tool| tool.arguments.contains(name));
        let is_misnamed = !params.contains_key("arguments")
            && value.is_object()
            && ARGUMENTS_MISNAMED.contains(&name.as_str());
        let finding = if is_misnamed {
            Finding::error("arguments_name", format!("`{shown}` holds the arguments"))
                .hint("the field is called `arguments`")
        } else if is_argument || !has_arguments {
            Finding::error(
                "arguments_place",
                format!("`{shown}` lies directly in `params`"),
            )
            .hint(format!("put it into `params.arguments.{shown}`"))
        } else {
            Finding::warning(
                "param_unknown",
                format!("`tools/call` has no parameter `{shown}`"),
            )
        };
        findings.push(finding.at(format!("params.{shown}")));
    }
}

/// What is checked against a schema, and how that is told.
struct Place<'a> {
    code: &'static str,
    field: &'a str,
    /// Names that a misspelt one may have been meant for.
    known: &'a [String],
    is_redacted: bool,
}

impl Place<'_> {
    fn check(&self, schema: &Validator, value: &Value, findings: &mut Vec<Finding>) {
        let violations = schema
            .iter_errors(value)
            .filter(|error| !self.is_redacted || survives_redaction(error))
            .take(MAX_VIOLATIONS);
        for violation in violations {
            findings.push(self.finding(&violation));
        }
    }

    fn finding(&self, violation: &ValidationError<'_>) -> Finding {
        let path = violation.instance_path().to_string();
        let mut field = format!("{}{}", self.field, dotted(&path));
        let error = |reason: String| Finding::error(self.code, reason);
        match violation.kind() {
            ValidationErrorKind::Required { property } => {
                if let Some(property) = property.as_str() {
                    field = format!("{field}.{property}");
                }
                error("is required".to_owned()).at(field)
            }
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let names: Vec<String> = unexpected
                    .iter()
                    .map(|name| format!("`{}`", text::cut(name, 80)))
                    .collect();
                let nearest = match unexpected.as_slice() {
                    [one] if path.is_empty() => {
                        text::nearest(one, self.known.iter().map(String::as_str))
                    }
                    _ => None,
                };
                error(format!("has no {}", names.join(", ")))
                    .at(field)
                    .did_you_mean(nearest)
            }
            _ => error(text::cut(&violation.to_string(), 200)).at(field),
        }
    }
}

/// `.tags[0]` for `/tags/0`.
fn dotted(pointer: &str) -> String {
    let mut path = String::new();
    for step in pointer.split('/').skip(1) {
        if step.bytes().all(|byte| byte.is_ascii_digit()) && !step.is_empty() {
            path.push_str(&format!("[{step}]"));
        } else {
            path.push('.');
            path.push_str(&text::cut(&step.replace("~1", "/").replace("~0", "~"), 80));
        }
    }
    path
}

/// Whether a violation says something of the message, and not of what was put in the place of its
/// texts: types, numbers and counts were kept.
fn survives_redaction(violation: &ValidationError<'_>) -> bool {
    let is_conditional = violation
        .evaluation_path()
        .to_string()
        .split('/')
        .any(|step| matches!(step, "then" | "else" | "dependentSchemas"));
    let kept = match violation.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            unexpected.iter().all(|name| !name.starts_with('['))
        }
        ValidationErrorKind::Required { .. }
        | ValidationErrorKind::Type { .. }
        | ValidationErrorKind::Minimum { .. }
        | ValidationErrorKind::Maximum { .. }
        | ValidationErrorKind::ExclusiveMinimum { .. }
        | ValidationErrorKind::ExclusiveMaximum { .. }
        | ValidationErrorKind::MultipleOf { .. }
        | ValidationErrorKind::MinItems { .. }
        | ValidationErrorKind::MaxItems { .. } => true,
        _ => false,
    };
    kept && !is_conditional
}
