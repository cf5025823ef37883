//! Answers that do not come from the handler.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use http_body_util::BodyExt;
use rmcp::model::{ErrorData, RequestId};
use serde_json::Value;

use crate::{guarded::defect, message::Refusal};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// More than any error that rmcp puts into words.
const MAX_ERROR_BYTES: usize = 4 << 10;

/// A JSON-RPC error.
pub(super) fn refuse(status: StatusCode, id: Option<RequestId>, error: ErrorData) -> Response {
    json(status, &Refusal { id, error }.to_json())
}

/// A JSON-RPC error that says when to come back.
pub(super) fn later(id: Option<RequestId>, error: ErrorData) -> Response {
    let mut response = refuse(StatusCode::TOO_MANY_REQUESTS, id, error);
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

pub(super) fn json(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// What rmcp says in plain words, as a JSON-RPC error; other answers as they are.
pub(super) async fn in_json(id: Option<RequestId>, response: Response) -> Response {
    let status = response.status();
    let is_json = response.headers().get(header::CONTENT_TYPE) == Some(&JSON);
    if is_json || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let words = match http_body_util::Limited::new(body, MAX_ERROR_BYTES)
        .collect()
        .await
    {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        Err(_) => String::new(),
    };
    let error = if status.is_server_error() {
        defect("a request", &words)
    } else {
        ErrorData::invalid_request(words, None)
    };
    let body = Refusal { id, error }.to_json().to_string();
    head.headers.insert(header::CONTENT_TYPE, JSON);
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::from(body))
}
