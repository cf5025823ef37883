//! Who may ask: the name the server was called by, the web page that asks, the token.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};
use rmcp::model::ErrorData;

use super::{HttpOptions, answer};

/// A secret that a client must know.
///
/// Only its hash is kept, and hashes are compared in constant time.
#[derive(Clone)]
pub struct Token(blake3::Hash);

impl Token {
    /// The fewest characters: fewer could be guessed.
    pub const MIN_CHARS: usize = 16;

    /// A token of visible ASCII, white space around it left out; `None` where it is too short or
    /// has other characters in it.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = text.len() >= Self::MIN_CHARS && text.bytes().all(|b| b.is_ascii_graphic());
        fits.then(|| Self(blake3::hash(text.as_bytes())))
    }

    fn is(&self, text: &str) -> bool {
        self.0 == blake3::hash(text.as_bytes())
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Who may ask.
#[derive(Debug)]
pub(super) struct Access {
    /// The server's own address.
    address: SocketAddr,
    hosts: Vec<String>,
    origins: Vec<String>,
    token: Option<Token>,
}

impl Access {
    pub(super) fn new(options: &HttpOptions, address: SocketAddr) -> Self {
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self {
            address,
            hosts: lower(&options.allowed_hosts),
            origins: lower(&options.allowed_origins),
            token: options.token.clone(),
        }
    }

    /// A name that somebody else chose can point here too (DNS rebinding).
    fn knows_host(&self, host: &Authority) -> bool {
        if self.token.is_some() && self.hosts.is_empty() {
            return true;
        }
        let name = host.host().trim_matches(['[', ']']).to_ascii_lowercase();
        let is_own = name == "localhost"
            || name
                .parse()
                .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback() || ip == self.address.ip());
        is_own
            || self
                .hosts
                .iter()
                .any(|known| *known == name || *known == host.as_str().to_ascii_lowercase())
    }

    /// A page may ask if it comes from this very server or from an origin that was allowed.
    fn knows_origin(&self, origin: &str, host: &Authority) -> bool {
        let origin = origin.trim().to_ascii_lowercase();
        self.origins.contains(&origin)
            || origin
                .strip_prefix("http://")
                .is_some_and(|from| from == host.as_str().to_ascii_lowercase())
    }

    fn refusal(&self, uri: &Uri, method: &Method, headers: &HeaderMap) -> Option<Response> {
        let host = match host(uri, headers) {
            Some(host) if self.knows_host(&host) => host,
            Some(_) => return Some(refuse(StatusCode::FORBIDDEN, "the Host is not known here")),
            None => {
                return Some(refuse(
                    StatusCode::BAD_REQUEST,
                    "the Host header is missing or malformed",
                ));
            }
        };
        if headers.contains_key(header::ORIGIN)
            && !only(headers, &header::ORIGIN)
                .is_some_and(|origin| self.knows_origin(origin, &host))
        {
            return Some(refuse(
                StatusCode::FORBIDDEN,
                "web pages of this Origin may not ask here",
            ));
        }
        // A browser asks for permission without the token.
        if method == Method::OPTIONS {
            return None;
        }
        let token = self.token.as_ref()?;
        match bearer(headers) {
            Some(text) if token.is(text) => None,
            Some(_) => Some(unauthorized(r#"Bearer realm="pkm", error="invalid_token""#)),
            None => Some(unauthorized(r#"Bearer realm="pkm""#)),
        }
    }
}

/// Lets a request through or answers it.
pub(super) async fn check(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    if let Some(refusal) = access.refusal(request.uri(), request.method(), request.headers()) {
        return refusal;
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let mut response = if request.method() == Method::OPTIONS {
        StatusCode::NO_CONTENT.into_response()
    } else {
        next.run(request).await
    };
    if let Some(origin) = origin {
        allow_page(response.headers_mut(), origin);
    }
    response
}

/// The name that the client calls the server by, which it may say in two places.
fn host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let named = only(headers, &header::HOST).and_then(|host| Authority::try_from(host).ok());
    let named = match (named, uri.authority()) {
        (Some(named), Some(target)) if named != *target => return None,
        (None, Some(target)) if !headers.contains_key(header::HOST) => target.clone(),
        (named, _) => named?,
    };
    let host = named.host();
    let port = named.as_str().strip_prefix(host)?;
    // No user, and a port that is one.
    (port.is_empty() || named.port_u16().is_some()).then_some(named)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = only(headers, &header::AUTHORIZATION)?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_ascii())
}

/// The text of a header that must not be there twice.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn refuse(status: StatusCode, reason: &'static str) -> Response {
    answer::refuse(status, None, ErrorData::invalid_request(reason, None))
}

fn unauthorized(challenge: &'static str) -> Response {
    let mut response = refuse(
        StatusCode::UNAUTHORIZED,
        "a bearer token is required (Authorization header)",
    );
    response.headers_mut().insert(
        header::WWW_AUTHENTICATE,
        HeaderValue::from_static(challenge),
    );
    response
}

/// Tells the browser that the page may have the answer.
fn allow_page(headers: &mut HeaderMap, origin: HeaderValue) {
    let fixed = [
        (header::VARY, "Origin"),
        (
            header::ACCESS_CONTROL_ALLOW_METHODS,
            "GET, POST, DELETE, OPTIONS",
        ),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, Mcp-Session-Id",
        ),
        (
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            "Mcp-Session-Id, Retry-After, WWW-Authenticate",
        ),
    ];
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
