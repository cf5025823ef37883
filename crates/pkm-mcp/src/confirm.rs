//! Asking the user before what cannot be undone.
//!
//! In a session with a handshake the question is a request of ours that the call waits for.
//! Without one it is the call's answer, and the client calls again with the user's reply and with
//! a state that we gave it: sealed, bound to the call and to what was asked, good for five minutes
//! and for one use.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use pkm_engine::TrashMark;
use rmcp::{
    Peer, RoleServer, ServiceError,
    model::{
        CancelledNotificationParam, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult,
        ElicitationAction, ElicitationSchema, InputRequest, InputRequiredResult, InputResponses,
        JsonObject, RequestStateCodec, RequestStateError, SealOptions, ServerRequest,
    },
    service::PeerRequestOptions,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{tools, wire::Fault};

/// The one field of the form, and the key of the question.
const CONFIRM: &str = "confirm";

/// How long a state can be used.
const STATE_TTL: Duration = Duration::from_secs(300);

/// What the user is asked.
#[derive(Debug)]
pub(crate) struct Question {
    /// In plain words, with what will be gone.
    pub(crate) message: String,
    /// What exactly the question is about.
    pub(crate) mark: TrashMark,
}

impl Question {
    fn into_form(self) -> ElicitRequestParams {
        let description = "Yes, delete them for good";
        let schema = ElicitationSchema::builder()
            .required_bool_with(CONFIRM, |field| {
                field.title("Delete").description(description)
            })
            .build_unchecked();
        ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: self.message,
            requested_schema: schema,
        }
    }
}

/// How far a call has the user's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Consent {
    /// The user can be asked, and was not yet.
    CanAsk,
    /// The client has no way to ask.
    CannotAsk,
    /// The user agreed to what the mark stands for.
    Given(TrashMark),
    /// The user said no, or closed the question.
    Refused,
}

impl Consent {
    /// What a reply says about the question with this mark; `None` where it leaves it open.
    fn of(reply: &ElicitResult, mark: TrashMark) -> Option<Self> {
        match reply.action {
            ElicitationAction::Accept => {
                match reply
                    .content
                    .as_ref()
                    .and_then(|content| content.get(CONFIRM))
                {
                    Some(Value::Bool(true)) => Some(Self::Given(mark)),
                    Some(Value::Bool(false)) => Some(Self::Refused),
                    _ => None,
                }
            }
            _ => Some(Self::Refused),
        }
    }
}

/// Asks in a session with a handshake, and waits for the reply.
///
/// # Errors
///
/// A refusal where no reply comes in time, or the call is cancelled.
pub(crate) async fn ask(
    peer: &Peer<RoleServer>,
    question: Question,
    patience: Duration,
    cancelled: &CancellationToken,
) -> Result<Consent, Fault> {
    let mark = question.mark.clone();
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(question.into_form()));
    let options = PeerRequestOptions::with_timeout(patience);
    let handle = match peer.send_request_with_option(request, options).await {
        Ok(handle) => handle,
        Err(error) => return Ok(unasked(&error)),
    };
    let id = handle.id.clone();
    let reply = tokio::select! {
        reply = handle.await_response() => reply,
        () = cancelled.cancelled() => {
            let withdrawn = CancelledNotificationParam::new(Some(id), None);
            // A client that is gone needs no telling.
            let _ = peer.notify_cancelled(withdrawn).await;
            return Err(tools::cancelled());
        }
    };
    match reply {
        Ok(ClientResult::ElicitResult(reply)) => {
            Ok(Consent::of(&reply, mark).unwrap_or(Consent::Refused))
        }
        Ok(other) => {
            tracing::debug!(?other, "a question was answered with something else");
            Ok(Consent::CannotAsk)
        }
        Err(ServiceError::Timeout { .. }) => Err(tools::unconfirmed()),
        Err(error) => Ok(unasked(&error)),
    }
}

/// The client said that it can ask, and then it could not.
fn unasked(error: &ServiceError) -> Consent {
    tracing::debug!(%error, "the user could not be asked");
    Consent::CannotAsk
}

/// What the client keeps for us between question and reply.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    nonce: String,
    mark: TrashMark,
}

/// Questions that a client carries to the user and back.
pub(crate) struct Confirmations {
    codec: RequestStateCodec,
    /// Nonces of the states that were used, and when: none is good twice.
    used: Mutex<HashMap<String, Instant>>,
}

impl Confirmations {
    /// With a key of this process.
    pub(crate) fn new() -> Self {
        Self {
            codec: RequestStateCodec::try_new(random::<32>()).expect("the key is long enough"),
            used: Mutex::default(),
        }
    }

    /// The answer to a call that must be confirmed.
    pub(crate) fn question(
        &self,
        question: Question,
        bound_to: &[u8],
    ) -> Result<InputRequiredResult, Fault> {
        let state = State {
            nonce: hex(&random::<16>()),
            mark: question.mark.clone(),
        };
        let options = SealOptions::new().associated_data(bound_to).ttl(STATE_TTL);
        let state = self
            .codec
            .seal_json_with(&state, &options)
            .map_err(|error| Fault::defect("sealing a question", &error))?;
        let request = InputRequest::Elicitation(ElicitRequest::new(question.into_form()));
        let requests = BTreeMap::from([(CONFIRM.to_owned(), request)]);
        Ok(InputRequiredResult::new(Some(requests), Some(state)))
    }

    /// What a call that comes with a state and replies has the user's word for. A state that has
    /// expired and a reply that is missing lead to the question again.
    ///
    /// # Errors
    ///
    /// A wrong argument where the state is not ours, belongs to another call or was used before,
    /// or the reply cannot be read.
    pub(crate) fn reply(
        &self,
        state: &str,
        replies: Option<&InputResponses>,
        bound_to: &[u8],
    ) -> Result<Consent, Fault> {
        let state: State = match self.codec.open_json_with(state, bound_to) {
            Ok(state) => state,
            Err(RequestStateError::Expired) => return Ok(Consent::CanAsk),
            Err(error) => {
                tracing::debug!(%error, "a state was refused");
                let reason = "is not one that this server gave for this very call";
                return Err(Fault::argument("requestState", reason));
            }
        };
        let Some(reply) = replies.and_then(|replies| replies.get(CONFIRM)) else {
            return Ok(Consent::CanAsk);
        };
        let reply: ElicitResult = serde_json::from_value(reply.clone()).map_err(|error| {
            Fault::argument("inputResponses.confirm", format!("cannot be read: {error}"))
        })?;
        let Some(consent) = Consent::of(&reply, state.mark) else {
            return Ok(Consent::CanAsk);
        };
        if !self.is_first_use(state.nonce) {
            return Err(Fault::argument("requestState", "was used already"));
        }
        Ok(consent)
    }

    fn is_first_use(&self, nonce: String) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // A state that old has expired, so that its nonce need not be kept.
        used.retain(|_, at| now - *at <= STATE_TTL);
        used.insert(nonce, now).is_none()
    }
}

/// What a state is good for: one tool with the same arguments, in whatever order they come. Each
/// client that gets as far as this may do the same, so no client is named.
pub(crate) fn bound_to(tool: &str, arguments: &JsonObject) -> Vec<u8> {
    let sorted: BTreeMap<&String, &Value> = arguments.iter().collect();
    let arguments = serde_json::to_string(&sorted).expect("values can be written");
    format!("tools/call\n{tool}\n{arguments}").into_bytes()
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mark() -> TrashMark {
        serde_json::from_value(json!("m")).unwrap()
    }

    fn asked(confirmations: &Confirmations, bound_to: &[u8]) -> String {
        let question = Question {
            message: "Really?".into(),
            mark: mark(),
        };
        let asked = confirmations.question(question, bound_to).unwrap();
        asked.request_state.unwrap()
    }

    fn replies(reply: Value) -> InputResponses {
        BTreeMap::from([(CONFIRM.to_owned(), reply)])
    }

    fn yes() -> InputResponses {
        replies(json!({"action": "accept", "content": {"confirm": true}}))
    }

    #[test]
    fn each_reply_means_one_thing() {
        let confirmations = Confirmations::new();
        for (reply, consent) in [
            (yes(), Consent::Given(mark())),
            (
                replies(json!({"action": "accept", "content": {"confirm": false}})),
                Consent::Refused,
            ),
            (replies(json!({"action": "decline"})), Consent::Refused),
            (replies(json!({"action": "cancel"})), Consent::Refused),
            (replies(json!({"action": "accept"})), Consent::CanAsk),
            (
                replies(json!({"action": "accept", "content": {}})),
                Consent::CanAsk,
            ),
            (InputResponses::new(), Consent::CanAsk),
        ] {
            let state = asked(&confirmations, b"call");
            let found = confirmations.reply(&state, Some(&reply), b"call").unwrap();
            assert_eq!(found, consent, "{reply:?}");
        }
        let state = asked(&confirmations, b"call");
        assert_eq!(
            confirmations.reply(&state, None, b"call").unwrap(),
            Consent::CanAsk
        );
    }

    #[test]
    fn a_state_is_good_for_its_own_call_once_and_only_untouched() {
        let confirmations = Confirmations::new();
        let state = asked(&confirmations, b"call");
        let refused = |state: &str, bound_to: &[u8]| match confirmations
            .reply(state, Some(&yes()), bound_to)
            .unwrap_err()
        {
            Fault::Argument { field, .. } => assert_eq!(field, "requestState"),
            other => panic!("{other:?}"),
        };
        refused(&state, b"another call");
        refused(&format!("{state}x"), b"call");
        refused("", b"call");
        refused(&asked(&Confirmations::new(), b"call"), b"call");
        let given = confirmations.reply(&state, Some(&yes()), b"call").unwrap();
        assert_eq!(given, Consent::Given(mark()));
        refused(&state, b"call");
    }

    #[test]
    fn an_expired_state_leads_to_the_question_again() {
        let confirmations = Confirmations::new();
        let old = State {
            nonce: "n".into(),
            mark: mark(),
        };
        let options = SealOptions::new()
            .associated_data(b"call")
            .ttl(Duration::ZERO);
        let state = confirmations.codec.seal_json_with(&old, &options).unwrap();
        // The time to live counts whole milliseconds.
        std::thread::sleep(Duration::from_millis(5));
        let consent = confirmations.reply(&state, Some(&yes()), b"call").unwrap();
        assert_eq!(consent, Consent::CanAsk);
    }

    #[test]
    fn the_order_of_the_arguments_does_not_matter_and_their_values_do() {
        let of = |arguments: Value| bound_to("t", arguments.as_object().unwrap());
        assert_eq!(of(json!({"a": 1, "b": 2})), of(json!({"b": 2, "a": 1})));
        assert_ne!(of(json!({"a": 1})), of(json!({"a": 2})));
        assert_ne!(
            bound_to("t", &JsonObject::new()),
            bound_to("u", &JsonObject::new())
        );
    }
}
