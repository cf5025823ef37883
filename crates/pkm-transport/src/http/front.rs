//! What stands before rmcp on the endpoint: room, bodies, messages, the rules of sessions.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use rmcp::{
    ServerHandler,
    model::{ClientRequest, ErrorData, JsonRpcMessage, ProtocolVersion, RequestId},
    transport::{StreamableHttpServerConfig, StreamableHttpService},
};
use serde_json::{Map, Value};
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::{
    HttpOptions, answer,
    sessions::{InFlight, NoRoom, Sessions},
    tapped::Recorder,
};
use crate::{
    Direction,
    call::CallEnd,
    guarded::Guarded,
    message::{
        self, Parsed, Refusal, classify, classify_member, id_in_use, is_modern, overloaded, parse,
        parse_error, request_id,
    },
};

/// More than a cancellation needs.
const SMALL_BYTES: usize = 4 << 10;
const SESSION: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";

/// The endpoint.
pub(super) struct Front<H: ServerHandler> {
    rmcp: StreamableHttpService<Guarded<H>, Sessions>,
    pub(super) sessions: Arc<Sessions>,
    served: Vec<ProtocolVersion>,
    options: HttpOptions,
    /// Requests whose calls or answers are not over.
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
        hold(response, Call::default(), recorder)
    }
}

/// One place among the requests in flight, kept by the answer and by the call: either can outlast
/// the other.
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

    /// A place for one more request; `None` where all are taken.
    fn place(&self) -> Option<Arc<Place>> {
        let place = Arc::new(Place(Arc::clone(&self.in_flight)));
        let n_before = self.in_flight.fetch_add(1, Ordering::AcqRel);
        (n_before < self.options.max_in_flight).then_some(place)
    }

    async fn post(&self, request: Request) -> Response {
        if [SESSION, REVISION]
            .iter()
            .any(|name| request.headers().get_all(*name).iter().count() > 1)
        {
            let refusal = Refusal::invalid(None, "headers", "name a session or a revision twice");
            return respond(StatusCode::BAD_REQUEST, *refusal);
        }
        let headers = request.headers();
        let is_json = text(headers, header::CONTENT_TYPE.as_str())
            .and_then(|value| value.split(';').next())
            .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"));
        if !is_json {
            return self.pass(request, None).await;
        }
        // Where there is no room, what is small is read all the same: it may be a cancellation.
        let is_small = announced_length(headers).is_some_and(|length| length <= SMALL_BYTES);
        if !is_small && self.in_flight.load(Ordering::Acquire) >= self.options.max_in_flight {
            return answer::later(None, too_many_requests(is_modern_header(headers)));
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
        let (response, call) = match parse(&bytes) {
            Ok(Parsed::One(message)) => {
                self.post_message(head, message, &bytes, &mut recorder)
                    .await
            }
            Ok(Parsed::Batch(members)) => {
                record(&mut recorder, &bytes);
                (self.post_batch(head, members).await, Call::default())
            }
            Ok(Parsed::Blank) => {
                let refusal = parse_error(&"the body is empty");
                (respond(StatusCode::BAD_REQUEST, *refusal), Call::default())
            }
            Err(refusal) => {
                record(&mut recorder, &bytes);
                (respond(StatusCode::BAD_REQUEST, *refusal), Call::default())
            }
        };
        hold(response, call, recorder)
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
        if announced_length(headers).is_some_and(|length| length > max) {
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
    ) -> (Response, Call) {
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
            Ok(None) => return (StatusCode::ACCEPTED.into_response(), Call::default()),
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
                return (respond(status, *refusal), Call::default());
            }
        };
        if !is_modern
            && !is_initialize
            && let Some(error) = self.revision_fault(&head.headers)
        {
            let response = answer::refuse(StatusCode::BAD_REQUEST, id, error);
            return (response, Call::default());
        }
        let mut call = Call::default();
        if let JsonRpcMessage::Request(request) = &message {
            let session = text(&head.headers, SESSION).filter(|_| !is_modern);
            call = match self
                .begin(&request.request, &request.id, session, is_modern)
                .await
            {
                Ok(call) => call,
                Err(response) => return (*response, Call::default()),
            };
            call.extend(&mut head.extensions);
        }
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
        (response, call)
    }

    /// Lets a request begin, or says why it cannot.
    async fn begin(
        &self,
        request: &ClientRequest,
        id: &RequestId,
        session: Option<&str>,
        is_modern: bool,
    ) -> Result<Call, Box<Response>> {
        let id = || Some(id.clone());
        let refuse = |response| Err(Box::new(response));
        if !is_modern && let Some(error) = message::only_modern(request) {
            return refuse(answer::refuse(StatusCode::OK, id(), error));
        }
        let Some(place) = self.place() else {
            return refuse(answer::later(id(), too_many_requests(is_modern)));
        };
        if let ClientRequest::InitializeRequest(_) = request
            && let Err(NoRoom) = self.sessions.make_room().await
        {
            let error = overloaded(is_modern, "too many sessions");
            return refuse(answer::later(id(), error));
        }
        let in_flight = match (session, id()) {
            (Some(session), Some(id)) => match self.sessions.begin(session, &id) {
                Some(in_flight) => Some(in_flight),
                None => {
                    let status = StatusCode::BAD_REQUEST;
                    return refuse(answer::refuse(status, Some(id), id_in_use()));
                }
            },
            _ => None,
        };
        Ok(Call {
            place: Some(place),
            in_flight,
        })
    }

    /// What is wrong with the revision that a request of a session names.
    fn revision_fault(&self, headers: &HeaderMap) -> Option<ErrorData> {
        let named = text(headers, REVISION)?;
        let fault =
            |reason: String| Some(Refusal::invalid(None, "MCP-Protocol-Version", &reason).error);
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
        if let Some(error) = self.revision_fault(&head.headers) {
            return answer::refuse(StatusCode::BAD_REQUEST, None, error);
        }
        let mut refusals = Vec::new();
        let mut streams = Vec::new();
        let mut stream_head = None;
        for member in members {
            let mut request = Request::from_parts(head.clone(), Body::from(member.to_string()));
            let message = match classify_member(member) {
                Ok(Some(message)) => message,
                Ok(None) => continue,
                Err(refusal) => {
                    refusals.push(refusal.to_json());
                    continue;
                }
            };
            let (mut id, mut call) = (None, Call::default());
            let mut response = None;
            if let JsonRpcMessage::Request(asked) = &message {
                id = Some(asked.id.clone());
                let begun = self
                    .begin(&asked.request, &asked.id, Some(&session), false)
                    .await;
                match begun {
                    Ok(begun) => call = begun,
                    Err(refusal) => response = Some(*refusal),
                }
                call.extend(request.extensions_mut());
            }
            let response = match response {
                Some(refusal) => refusal,
                None => self.pass(request, id).await,
            };
            if is_stream(&response) {
                let (head, body) = hold(response, call, None).into_parts();
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

/// What a request takes up until it is over.
#[derive(Default)]
struct Call {
    place: Option<Arc<Place>>,
    in_flight: Option<InFlight>,
}

impl Call {
    /// Gives it to the handler, too: that goes on when its client has left.
    fn extend(&self, extensions: &mut Extensions) {
        extensions.insert(self.place.clone());
        if let Some(in_flight) = self.in_flight.clone() {
            extensions.insert(CallEnd::new(move || in_flight.end()));
        }
    }
}

/// Keeps what the call takes up, and records messages, until the answer is sent or nobody takes it
/// any more.
fn hold(response: Response, call: Call, mut recorder: Option<Recorder>) -> Response {
    if let Some(recorder) = &mut recorder {
        recorder.expect(response.headers());
    }
    response.map(|body| {
        Body::new(Held {
            body,
            call,
            recorder,
        })
    })
}

/// A body that holds on to its call.
struct Held {
    body: Body,
    call: Call,
    recorder: Option<Recorder>,
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(std::pin::Pin::new(&mut self.body).poll_frame(context));
        match (&frame, &mut self.recorder) {
            (Some(Ok(frame)), Some(recorder)) => {
                if let Some(data) = frame.data_ref() {
                    recorder.data(data);
                }
            }
            (None, _) => {
                // Answered in full: the library has forgotten it.
                if let Some(in_flight) = &self.call.in_flight {
                    in_flight.end();
                }
            }
            (Some(_), _) => {}
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

fn too_many_requests(is_modern: bool) -> ErrorData {
    overloaded(is_modern, "too many requests at once")
}

fn announced_length(headers: &HeaderMap) -> Option<usize> {
    text(headers, header::CONTENT_LENGTH.as_str())?.parse().ok()
}

fn is_stream(response: &Response) -> bool {
    text(response.headers(), header::CONTENT_TYPE.as_str())
        .is_some_and(|kind| kind.starts_with("text/event-stream"))
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
