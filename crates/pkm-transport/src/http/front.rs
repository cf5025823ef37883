//! What stands before rmcp on the endpoint: room, bodies, messages, the rules of sessions.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use rmcp::{
    ServerHandler,
    model::{ClientRequest, ErrorData, JsonRpcMessage, ProtocolVersion, RequestId},
    transport::{StreamableHttpServerConfig, StreamableHttpService},
};
use serde_json::{Map, Value, json};
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::{
    HttpOptions, answer,
    sessions::{InFlight, NoRoom, Sessions},
    tapped::Recorder,
};
use crate::{
    Direction,
    guarded::Guarded,
    message::{
        self, Parsed, Refusal, classify, classify_member, is_modern, overloaded, parse,
        parse_error, request_id,
    },
    stdio::id_in_use,
};

const SESSION: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";

/// The endpoint.
pub(super) struct Front<H: ServerHandler> {
    rmcp: StreamableHttpService<Guarded<H>, Sessions>,
    pub(super) sessions: Arc<Sessions>,
    served: Vec<ProtocolVersion>,
    options: HttpOptions,
    /// Posts whose answers are not yet whole.
    pub(super) in_flight: Arc<AtomicUsize>,
    n_posts: AtomicU64,
}

/// Answers a request of any method.
pub(super) async fn answer<H: ServerHandler + Clone>(
    State(front): State<Arc<Front<H>>>,
    mut request: Request,
) -> Response {
    let wanted = if request.method() == Method::GET {
        "text/event-stream"
    } else {
        "application/json, text/event-stream"
    };
    take_anything(request.headers_mut(), wanted);
    if request.method() == Method::POST {
        front.post(request).await
    } else {
        let channel = text(request.headers(), SESSION)
            .unwrap_or_default()
            .to_owned();
        let recorder = front.recorder(channel);
        let ends_session = request.method() == Method::DELETE;
        let response = front.pass(request, None).await;
        if ends_session && response.status() == StatusCode::ACCEPTED {
            // The session is gone by now, and clients take "accepted" for a failure.
            return StatusCode::NO_CONTENT.into_response();
        }
        hold(response, (), recorder)
    }
}

/// One place among the posts in flight.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<H: ServerHandler + Clone> Front<H> {
    pub(super) fn new(handler: H, options: HttpOptions, cancel: CancellationToken) -> Self {
        let sessions = Arc::new(Sessions::new(options.max_sessions, options.session_idle));
        let config = StreamableHttpServerConfig::default()
            .with_cancellation_token(cancel)
            .with_max_request_body_bytes(options.max_body_bytes)
            // Both are looked at before, see `access`.
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let served = handler.supported_protocol_versions().into_owned();
        let handler = Guarded(handler);
        Self {
            rmcp: StreamableHttpService::new(
                move || Ok(handler.clone()),
                Arc::clone(&sessions),
                config,
            ),
            sessions,
            served,
            options,
            in_flight: Arc::default(),
            n_posts: AtomicU64::new(0),
        }
    }

    fn recorder(&self, channel: String) -> Option<Recorder> {
        let tap = self.options.tap.clone()?;
        Some(Recorder::new(tap, channel))
    }

    async fn post(&self, request: Request) -> Response {
        let place = Place(Arc::clone(&self.in_flight));
        let is_modern = is_modern_header(request.headers());
        if self.in_flight.fetch_add(1, Ordering::AcqRel) >= self.options.max_in_flight {
            return answer::later(None, overloaded(is_modern, "too many requests at once"));
        }
        let is_json = text(request.headers(), header::CONTENT_TYPE.as_str())
            .and_then(|value| value.split(';').next())
            .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"));
        if !is_json {
            return self.pass(request, None).await;
        }
        let (mut head, body) = request.into_parts();
        let bytes = match self.read(&head.headers, body).await {
            Ok(bytes) => bytes,
            Err(refusal) => return *refusal,
        };
        head.headers.remove(header::CONTENT_LENGTH);
        head.headers.remove(header::TRANSFER_ENCODING);
        let n_post = self.n_posts.fetch_add(1, Ordering::Relaxed);
        let channel =
            text(&head.headers, SESSION).map_or_else(|| format!("request-{n_post}"), str::to_owned);
        let mut recorder = self.recorder(channel);
        let (response, guards) = match parse(&bytes) {
            Ok(Parsed::One(message)) => {
                self.post_message(head, message, &bytes, &mut recorder)
                    .await
            }
            Ok(Parsed::Batch(members)) => {
                record(&mut recorder, &bytes);
                (self.post_batch(head, members).await, None)
            }
            Ok(Parsed::Blank) => {
                let refusal = parse_error(&"the body is empty");
                (respond(StatusCode::BAD_REQUEST, *refusal), None)
            }
            Err(refusal) => {
                record(&mut recorder, &bytes);
                (respond(StatusCode::BAD_REQUEST, *refusal), None)
            }
        };
        hold(response, (place, guards), recorder)
    }

    /// The whole body, within the limits of size and time.
    async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, Box<Response>> {
        let max = self.options.max_body_bytes;
        let refuse = |status, error| Err(Box::new(answer::refuse(status, None, error)));
        let too_long = || {
            let reason = format!("is longer than {max} bytes");
            refuse(
                StatusCode::PAYLOAD_TOO_LARGE,
                Refusal::invalid(None, "message", &reason).error,
            )
        };
        let announced = text(headers, header::CONTENT_LENGTH.as_str())
            .and_then(|length| length.parse::<usize>().ok());
        if announced.is_some_and(|length| length > max) {
            return too_long();
        }
        let whole = Limited::new(body, max).collect();
        match time::timeout(self.options.read_timeout, whole).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => too_long(),
            Ok(Err(error)) => refuse(
                StatusCode::BAD_REQUEST,
                parse_error(&format!("the body broke off: {error}")).error,
            ),
            Err(_) => {
                let reason = format!(
                    "did not arrive within {} s",
                    self.options.read_timeout.as_secs()
                );
                refuse(
                    StatusCode::REQUEST_TIMEOUT,
                    Refusal::invalid(None, "message", &reason).error,
                )
            }
        }
    }

    async fn post_message(
        &self,
        mut head: Parts,
        message: Map<String, Value>,
        bytes: &Bytes,
        recorder: &mut Option<Recorder>,
    ) -> (Response, Option<Arc<InFlight>>) {
        let id = message.get("id").and_then(request_id);
        let is_modern = is_modern(message.get("params")) || is_modern_header(&head.headers);
        let is_initialize = message
            .get("method")
            .is_some_and(|method| method == "initialize");
        if !is_initialize {
            record(recorder, bytes);
        }
        let message = match classify(message) {
            Ok(Some(message)) => message,
            Ok(None) => return (StatusCode::ACCEPTED.into_response(), None),
            Err(refusal) => {
                if is_initialize {
                    record(recorder, bytes);
                }
                // Old clients read the body of an error only where the transport knows of none.
                let is_for_the_caller = refusal.error.code.0 == -32_602 && !is_modern;
                let status = if is_for_the_caller {
                    StatusCode::OK
                } else {
                    StatusCode::BAD_REQUEST
                };
                return (respond(status, *refusal), None);
            }
        };
        if !is_modern
            && !is_initialize
            && let Some(error) = self.revision_fault(&head.headers)
        {
            return (answer::refuse(StatusCode::BAD_REQUEST, id, error), None);
        }
        let mut guard = None;
        if let JsonRpcMessage::Request(request) = &message {
            if let ClientRequest::InitializeRequest(_) = request.request
                && let Err(NoRoom) = self.sessions.make_room().await
            {
                return (
                    answer::later(id, overloaded(is_modern, "too many sessions")),
                    None,
                );
            }
            if !is_modern && let Some(error) = message::only_modern(&request.request) {
                return (answer::refuse(StatusCode::OK, id, error), None);
            }
            if !is_modern && let Some(session) = text(&head.headers, SESSION) {
                guard = self.sessions.begin(session, &request.id);
                if guard.is_none() {
                    return (
                        answer::refuse(StatusCode::BAD_REQUEST, id, id_in_use()),
                        None,
                    );
                }
            }
        }
        // The call keeps it too: it goes on when its client has left.
        head.extensions.insert(guard.clone());
        let request = Request::from_parts(head, Body::from(trimmed(bytes)));
        let response = self.pass(request, id).await;
        if is_initialize {
            // The session's name is the channel's, and it is known by now.
            if let (Some(recorder), Some(session)) =
                (recorder.as_mut(), text(response.headers(), SESSION))
            {
                recorder.rename(session);
            }
            record(recorder, bytes);
        }
        (response, guard)
    }

    /// What is wrong with the revision that a request of a session names.
    fn revision_fault(&self, headers: &HeaderMap) -> Option<ErrorData> {
        let named = text(headers, REVISION)?;
        let fault = |reason: String| {
            let data =
                json!({"field": "MCP-Protocol-Version", "reason": reason, "retryable": false});
            Some(ErrorData::invalid_request(
                format!("`MCP-Protocol-Version` {reason}"),
                Some(data),
            ))
        };
        if !self.served.iter().any(|served| served.as_str() == named) {
            let served: Vec<_> = self.served.iter().map(ProtocolVersion::as_str).collect();
            return fault(format!("is not served; served are {}", served.join(", ")));
        }
        let agreed = self.sessions.revision(text(headers, SESSION)?)?;
        if agreed.as_str() == named {
            return None;
        }
        fault(format!("must be {agreed}, as the handshake agreed"))
    }

    /// Each member by itself, and the answers in one stream.
    async fn post_batch(&self, head: Parts, members: Vec<Value>) -> Response {
        let session = text(&head.headers, SESSION).map(str::to_owned);
        let takes_batches = session
            .as_deref()
            .and_then(|session| self.sessions.revision(session))
            .is_some_and(|revision| revision == ProtocolVersion::V_2025_03_26);
        let (Some(session), true) = (session, takes_batches) else {
            return respond(StatusCode::BAD_REQUEST, *message::no_batch());
        };
        let mut refusals = Vec::new();
        let mut streams = Vec::new();
        let mut stream_head = None;
        for member in members {
            let bytes = Bytes::from(member.to_string());
            let message = match classify_member(member) {
                Ok(Some(message)) => message,
                Ok(None) => continue,
                Err(refusal) => {
                    refusals.push(refusal.to_json());
                    continue;
                }
            };
            let (mut id, mut guard) = (None, None);
            if let JsonRpcMessage::Request(request) = &message {
                id = Some(request.id.clone());
                guard = self.sessions.begin(&session, &request.id);
                if guard.is_none() {
                    refusals.push(Refusal::new(id, id_in_use()).to_json());
                    continue;
                }
            }
            let mut request = Request::from_parts(head.clone(), Body::from(bytes));
            request.extensions_mut().insert(guard.clone());
            let response = self.pass(request, id).await;
            if response.status() == StatusCode::OK {
                let response = hold(response, guard, None);
                let (head, body) = response.into_parts();
                stream_head.get_or_insert(head);
                streams.push(body.into_data_stream());
            } else if response.status() != StatusCode::ACCEPTED
                && let Ok(body) = response.into_body().collect().await
                && let Ok(error) = serde_json::from_slice(&body.to_bytes())
            {
                refusals.push(error);
            }
        }
        match stream_head {
            None if refusals.is_empty() => StatusCode::ACCEPTED.into_response(),
            None => answer::json(StatusCode::OK, &Value::Array(refusals)),
            Some(head) => {
                let refusals = refusals
                    .into_iter()
                    .map(|error| Ok(Bytes::from(format!("data: {error}\n\n"))));
                let events = stream::iter(refusals).chain(stream::select_all(streams));
                Response::from_parts(head, Body::from_stream(events))
            }
        }
    }

    /// To rmcp, and its answer with errors in JSON.
    async fn pass(&self, request: Request, id: Option<RequestId>) -> Response {
        let session = text(request.headers(), SESSION).map(str::to_owned);
        let mut response = self.rmcp.handle(request).await.map(Body::new);
        if response.status() == StatusCode::INTERNAL_SERVER_ERROR
            && let Some(session) = session
            && self.sessions.revision(&session).is_none()
        {
            // It ended meanwhile.
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        answer::in_json(id, response).await
    }
}

fn respond(status: StatusCode, refusal: Refusal) -> Response {
    answer::refuse(status, refusal.id, refusal.error)
}

fn record(recorder: &mut Option<Recorder>, bytes: &[u8]) {
    if let Some(recorder) = recorder {
        recorder.message(Direction::ToServer, bytes);
    }
}

/// Keeps `guards` and records messages until the answer is sent or nobody takes it any more.
fn hold<G: Send + 'static>(
    response: Response,
    guards: G,
    mut recorder: Option<Recorder>,
) -> Response {
    if let Some(recorder) = &mut recorder {
        recorder.expect(response.headers());
    }
    response.map(|body| {
        Body::new(Held {
            body,
            recorder,
            _guards: guards,
        })
    })
}

/// A body that holds on to something.
struct Held<G> {
    body: Body,
    recorder: Option<Recorder>,
    _guards: G,
}

impl<G> Unpin for Held<G> {}

impl<G> hyper::body::Body for Held<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(std::pin::Pin::new(&mut self.body).poll_frame(context));
        if let (Some(recorder), Some(Ok(frame))) = (&mut self.recorder, &frame)
            && let Some(data) = frame.data_ref()
        {
            recorder.data(data);
        }
        std::task::Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn is_modern_header(headers: &HeaderMap) -> bool {
    text(headers, REVISION).is_some_and(|named| named >= ProtocolVersion::V_2026_07_28.as_str())
}

/// A client that takes anything, or does not say what it takes, takes what we send.
fn take_anything(headers: &mut HeaderMap, wanted: &'static str) {
    let takes_anything = headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|value| value.to_str().is_ok_and(|value| value.contains("*/*")));
    if takes_anything || !headers.contains_key(header::ACCEPT) {
        headers.insert(header::ACCEPT, HeaderValue::from_static(wanted));
    }
}

fn trimmed(bytes: &Bytes) -> Bytes {
    let bare = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.slice_ref(bare)
}
