//! Fixtures that ask the client something before they answer: an `input_required` result, to which the
//! client comes back with the same call, its answers and the state it was given.

use rmcp::{
    ErrorData,
    model::{
        ClientCapabilities, InputRequest, InputRequiredResult, InputResponses, JsonObject,
        RequestStateCodec, SealOptions,
    },
};
use serde_json::{Value, json};

use crate::server::wire;

/// What came with this round of a call.
pub(crate) struct Round<'a> {
    /// The tool or prompt; a state sealed for one is worth nothing to another.
    pub(crate) name: &'a str,
    pub(crate) answers: Option<&'a InputResponses>,
    pub(crate) state: Option<&'a str>,
    pub(crate) capabilities: Option<ClientCapabilities>,
    pub(crate) seal: &'a RequestStateCodec,
}

/// Either the text of a finished call, or what has to be asked first.
pub(crate) enum Outcome {
    Done(String),
    Ask(InputRequiredResult),
}

/// A question to the client: the key of its answer, the method, the parameters.
type Question = (&'static str, &'static str, Value);

/// A question with one field to fill in.
pub(crate) fn form(key: &'static str, message: &str, field: &str, kind: &str) -> Question {
    let schema =
        json!({"type": "object", "properties": {field: {"type": kind}}, "required": [field]});
    let params = json!({"message": message, "requestedSchema": schema});
    (key, "elicitation/create", params)
}

/// A question to the client's model.
fn sample(key: &'static str, text: &str, max_tokens: u32) -> Question {
    let message = json!({"role": "user", "content": {"type": "text", "text": text}});
    let params = json!({"messages": [message], "maxTokens": max_tokens});
    (key, "sampling/createMessage", params)
}

/// The question for the client's roots.
fn roots() -> Question {
    ("client_roots", "roots/list", json!({}))
}

/// A question as it stands in a result.
pub(crate) fn request(method: &str, params: &Value) -> Result<InputRequest, ErrorData> {
    wire(json!({"method": method, "params": params}))
}

/// The form that the user sent off under `key`.
pub(crate) fn accepted(answer: Option<&Value>) -> Option<&JsonObject> {
    let answer = answer?;
    let accepted = answer.get("action").and_then(Value::as_str) == Some("accept");
    answer.get("content").filter(|_| accepted)?.as_object()
}

impl Round<'_> {
    fn answer(&self, key: &str) -> Option<&Value> {
        self.answers?.get(key)
    }

    /// The text that was filled in as `field` of the form `key`.
    fn field(&self, key: &str, field: &str) -> Option<&str> {
        accepted(self.answer(key))?.get(field)?.as_str()
    }

    /// What the client's model said to `key`.
    fn sampled(&self, key: &str) -> Option<&str> {
        self.answer(key)?.get("content")?.get("text")?.as_str()
    }

    /// How many roots the client named.
    fn n_roots(&self) -> Option<usize> {
        Some(self.answer("client_roots")?.get("roots")?.as_array()?.len())
    }

    fn declares(&self, method: &str) -> bool {
        let Some(capabilities) = &self.capabilities else {
            return false;
        };
        match method {
            "elicitation/create" => capabilities.elicitation.is_some(),
            "sampling/createMessage" => capabilities.sampling.is_some(),
            "roots/list" => capabilities.roots.is_some(),
            _ => false,
        }
    }

    /// Asks all `questions`, and seals `state` if there is one.
    ///
    /// # Errors
    ///
    /// −32021 when the client did not say that it can answer one of them.
    fn ask(&self, questions: Vec<Question>, state: Option<Value>) -> Result<Outcome, ErrorData> {
        if let Some((_, method, _)) = questions
            .iter()
            .find(|(_, method, _)| !self.declares(method))
        {
            return Err(undeclared(method)?);
        }
        let mut requests = std::collections::BTreeMap::new();
        for (key, method, params) in questions {
            requests.insert(key.to_owned(), request(method, &params)?);
        }
        let options = SealOptions::new().associated_data(self.name.as_bytes());
        let sealed = match state {
            None => None,
            Some(state) => Some(
                self.seal
                    .seal_json_with(&state, &options)
                    .map_err(|error| ErrorData::internal_error(error.to_string(), None))?,
            ),
        };
        Ok(Outcome::Ask(InputRequiredResult::new(
            Some(requests),
            sealed,
        )))
    }

    /// The state of an earlier round.
    ///
    /// # Errors
    ///
    /// −32602 when it is not as this server sealed it.
    fn opened(&self) -> Result<Option<Value>, ErrorData> {
        let Some(state) = self.state else {
            return Ok(None);
        };
        let opened = self.seal.open_json_with(state, self.name.as_bytes());
        opened.map(Some).map_err(|_| {
            ErrorData::invalid_params(
                "the request state is not one that this server gave",
                Some(json!({"field": "requestState"})),
            )
        })
    }
}

/// The error of a call that needs a capability which the client has not declared.
fn undeclared(method: &str) -> Result<ErrorData, ErrorData> {
    let capability = match method {
        "elicitation/create" => "elicitation",
        "sampling/createMessage" => "sampling",
        _ => "roots",
    };
    let required = wire(json!({capability: {}}))?;
    Ok(ErrorData::missing_required_client_capability(required))
}

/// The error of a call that needs the client's model, when the client lends none.
pub(crate) fn needs_sampling() -> Result<ErrorData, ErrorData> {
    undeclared("sampling/createMessage")
}

/// One round of the tool or prompt; `None` when it is none of these.
pub(crate) fn answer(round: &Round<'_>) -> Option<Result<Outcome, ErrorData>> {
    let short_name = round.name.strip_prefix("test_input_required_result_");
    Some(match short_name.unwrap_or(round.name) {
        "elicitation" | "test_streaming_elicitation" => match round.field("user_name", "name") {
            Some(name) => Ok(Outcome::Done(format!("Hello, {name}!"))),
            None => round.ask(
                vec![form("user_name", "What is your name?", "name", "string")],
                None,
            ),
        },
        "sampling" => match round.sampled("capital_question") {
            Some(said) => Ok(Outcome::Done(said.to_owned())),
            None => round.ask(
                vec![sample(
                    "capital_question",
                    "What is the capital of France?",
                    100,
                )],
                None,
            ),
        },
        "list_roots" => match round.n_roots() {
            Some(n_roots) => Ok(Outcome::Done(format!("The client named {n_roots} roots."))),
            None => round.ask(vec![roots()], None),
        },
        "request_state" | "tampered_state" => confirmed(round),
        "multiple_inputs" => three_at_once(round),
        "multi_round" => two_steps(round),
        "capabilities" => what_the_client_can(round),
        "prompt" => match round.field("user_context", "context") {
            Some(context) => Ok(Outcome::Done(format!("In the context of {context}."))),
            None => round.ask(
                vec![form(
                    "user_context",
                    "What context should the prompt use?",
                    "context",
                    "string",
                )],
                None,
            ),
        },
        "test_tool_with_task" => match round.field("user_name", "name") {
            Some(name) => Ok(Outcome::Done(name.to_owned())),
            None => round.ask(
                vec![form("user_name", "Who is this for?", "name", "string")],
                None,
            ),
        },
        _ => return None,
    })
}

/// A yes that counts only with the state of the round that asked for it.
fn confirmed(round: &Round<'_>) -> Result<Outcome, ErrorData> {
    let asked = round.opened()?.is_some();
    let ok = accepted(round.answer("confirm")).and_then(|form| form.get("ok"));
    if asked && ok == Some(&Value::Bool(true)) {
        return Ok(Outcome::Done("state-ok".into()));
    }
    let question = form("confirm", "Please confirm", "ok", "boolean");
    round.ask(vec![question], Some(json!({"asked": "confirm"})))
}

fn three_at_once(round: &Round<'_>) -> Result<Outcome, ErrorData> {
    let asked = round.opened()?.is_some();
    let answers = (
        round.field("user_name", "name"),
        round.sampled("greeting"),
        round.n_roots(),
    );
    if let (true, (Some(name), Some(greeting), Some(n_roots))) = (asked, answers) {
        let text = format!("{greeting} {name} has {n_roots} roots.");
        return Ok(Outcome::Done(text));
    }
    let questions = vec![
        form("user_name", "What is your name?", "name", "string"),
        sample("greeting", "Generate a greeting", 50),
        roots(),
    ];
    round.ask(questions, Some(json!({"asked": "all"})))
}

fn two_steps(round: &Round<'_>) -> Result<Outcome, ErrorData> {
    let state = round.opened()?.unwrap_or_default();
    match (state.get("step").and_then(Value::as_u64), &state["name"]) {
        (Some(2), Value::String(name)) => {
            if let Some(color) = round.field("step2", "color") {
                return Ok(Outcome::Done(format!("{name} likes {color}.")));
            }
        }
        (Some(1), _) => {
            if let Some(name) = round.field("step1", "name") {
                let question = form(
                    "step2",
                    "Step 2: What is your favorite color?",
                    "color",
                    "string",
                );
                return round.ask(vec![question], Some(json!({"step": 2, "name": name})));
            }
        }
        _ => {}
    }
    let question = form("step1", "Step 1: What is your name?", "name", "string");
    round.ask(vec![question], Some(json!({"step": 1})))
}

/// Asks only what the client said it can answer.
fn what_the_client_can(round: &Round<'_>) -> Result<Outcome, ErrorData> {
    let questions: Vec<Question> = [
        form("user_name", "What is your name?", "name", "string"),
        sample("greeting", "Generate a greeting", 50),
        roots(),
    ]
    .into_iter()
    .filter(|(_, method, _)| round.declares(method))
    .collect();
    let answered = questions
        .iter()
        .all(|(key, ..)| round.answer(key).is_some());
    if answered {
        let text = format!("{} answers", questions.len());
        return Ok(Outcome::Done(text));
    }
    round.ask(questions, None)
}
