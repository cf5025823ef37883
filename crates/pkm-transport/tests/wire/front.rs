//! What stands before the endpoint: who may ask, for how much, how slowly.

use std::time::Duration;

use pkm_transport::http::{self, HttpOptions, Token};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::{Http, MODERN, meta, read_reply, request};

const TOKEN: &str = "0123456789abcdef";

fn ping() -> Vec<u8> {
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": meta()}})
        .to_string()
        .into()
}

fn modern(more: &[&str]) -> Vec<String> {
    let mut headers = vec![
        format!("MCP-Protocol-Version: {MODERN}"),
        "Mcp-Method: tools/list".to_owned(),
    ];
    headers.extend(more.iter().map(|line| (*line).to_owned()));
    headers
}

async fn status(server: &Http, more: &[&str]) -> u16 {
    server.post(&modern(more), &ping()).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_names_and_pages_are_kept_out() {
    let server = Http::start(HttpOptions {
        allowed_hosts: vec!["notes.example".into()],
        allowed_origins: vec!["http://localhost:6274".into()],
        ..HttpOptions::default()
    })
    .await;
    let own = format!("Origin: http://{}", server.address);
    let port = server.address.port();
    for (headers, wanted) in [
        (vec![], 200),
        (vec!["Host: evil.example"], 403),
        (vec!["Host: localhost.evil.example"], 403),
        (vec!["Host: 127.0.0.1.evil.example"], 403),
        (vec!["Host: a b"], 400),
        (vec!["Host: evil.example@127.0.0.1"], 400),
        (vec!["Host: 127.0.0.1:99999"], 400),
        (vec!["Host: 127.0.0.1", "Host: 127.0.0.1"], 400),
        (vec!["Host: [::1]"], 200),
        (vec!["Host: LOCALHOST:80"], 200),
        (vec!["Host: notes.example:443"], 200),
        (vec!["Origin: http://evil.example"], 403),
        (vec!["Origin: null"], 403),
        (vec!["Origin: http://127.0.0.1:1"], 403),
        (vec!["Origin: http://localhost:6274"], 200),
        (vec![own.as_str()], 200),
        (vec![own.as_str(), "Origin: http://evil.example"], 403),
        (
            vec!["Host: evil.example", "Origin: http://evil.example"],
            403,
        ),
    ] {
        assert_eq!(status(&server, &headers).await, wanted, "{headers:?}");
    }
    // Refused before the body is looked at, and in the protocol's own form.
    let reply = server
        .post(&["Origin: http://evil.example".to_owned()], b"{not json")
        .await;
    assert_eq!(
        (reply.answers(), reply.status),
        (vec![(Value::Null, -32_600)], 403)
    );
    // A target that names another host than the header does.
    let target = format!(
        "GET http://evil.example/mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(server.raw(target.as_bytes()).await.status, 400);
    // No Host at all.
    let bare = format!("GET /mcp HTTP/1.1\r\nConnection: close\r\nAccept: */*\r\n\r\n:{port}");
    assert_eq!(server.raw(bare.as_bytes()).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowed_page_gets_through_its_browser() {
    let server = Http::start(HttpOptions {
        allowed_origins: vec!["http://localhost:6274".into()],
        token: Token::new(TOKEN),
        ..HttpOptions::default()
    })
    .await;
    let origin = "Origin: http://localhost:6274".to_owned();
    let reply = server
        .request("OPTIONS", std::slice::from_ref(&origin), b"")
        .await;
    assert_eq!(reply.status, 204);
    assert_eq!(
        reply.header("access-control-allow-origin"),
        Some("http://localhost:6274")
    );
    assert!(
        reply
            .header("access-control-allow-headers")
            .unwrap()
            .contains("Authorization")
    );
    let reply = server
        .request("OPTIONS", &["Origin: http://evil.example".to_owned()], b"")
        .await;
    assert_eq!(
        (reply.status, reply.header("access-control-allow-origin")),
        (403, None)
    );
    let token = format!("Authorization: Bearer {TOKEN}");
    let reply = server.post(&modern(&[&origin, &token]), &ping()).await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.header("access-control-allow-origin"),
        Some("http://localhost:6274")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_asked_for_before_the_body_is_read() {
    let server = Http::start(HttpOptions {
        token: Token::new(TOKEN),
        ..HttpOptions::default()
    })
    .await;
    let right = format!("Authorization: Bearer {TOKEN}");
    let lower = format!("Authorization: bearer  {TOKEN}");
    let longer = format!("Authorization: Bearer {TOKEN}0");
    let basic = format!("Authorization: Basic {TOKEN}");
    assert_eq!(status(&server, &[&right]).await, 200);
    assert_eq!(status(&server, &[&lower]).await, 200);
    for (headers, challenge) in [
        (vec![], r#"Bearer realm="pkm""#),
        (vec![basic.as_str()], r#"Bearer realm="pkm""#),
        (
            vec![right.as_str(), basic.as_str()],
            r#"Bearer realm="pkm""#,
        ),
        (
            vec![longer.as_str()],
            r#"Bearer realm="pkm", error="invalid_token""#,
        ),
    ] {
        let reply = server.post(&modern(&headers), b"{not json").await;
        assert_eq!(reply.status, 401, "{headers:?}");
        assert_eq!(reply.header("www-authenticate"), Some(challenge));
    }
    for method in ["GET", "DELETE"] {
        assert_eq!(server.request(method, &[], b"").await.status, 401);
    }
}

#[test]
fn a_token_that_could_be_guessed_is_none() {
    for text in [
        "",
        "short",
        "0123456789abcde",
        "0123456789 abcdef",
        "0123456789abcdéf",
    ] {
        assert!(Token::new(text).is_none(), "{text}");
    }
    assert!(Token::new(" 0123456789abcdef\n").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn other_machines_are_not_served_without_a_token() {
    let open = "0.0.0.0:0".parse().unwrap();
    let refused = http::bind(open, &HttpOptions::default()).await;
    assert!(
        matches!(refused, Err(pkm_transport::Error::Exposed { .. })),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_have_a_limit_however_they_are_sent() {
    let server = Http::start(HttpOptions {
        max_body_bytes: 1_000,
        ..HttpOptions::default()
    })
    .await;
    let long = vec![b' '; 1_001];
    let reply = server.post(&modern(&[]), &long).await;
    assert_eq!(
        (reply.answers(), reply.status),
        (vec![(Value::Null, -32_600)], 413)
    );
    // Without a length, piece by piece.
    let mut head = String::from_utf8(request(
        server.address,
        "POST",
        &modern(&["Content-Type: application/json"]),
        b"",
    ))
    .unwrap();
    head = head.replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let piece = format!("{:x}\r\n{}\r\n", 600, " ".repeat(600));
    let reply = server
        .raw(format!("{head}{piece}{piece}0\r\n\r\n").as_bytes())
        .await;
    assert_eq!(reply.status, 413);
    // Just within it.
    let mut fits = ping();
    fits.resize(1_000, b' ');
    assert_eq!(server.post(&modern(&[]), &fits).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_ten_and_seventeen_megabytes_are_taken() {
    let server = Http::start(HttpOptions::default()).await;
    for megabytes in [10, 17] {
        let text = "x".repeat(megabytes << 20);
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": {"name": "echo", "arguments": {"text": text}, "_meta": meta()}});
        let headers = [
            format!("MCP-Protocol-Version: {MODERN}"),
            "Mcp-Method: tools/call".to_owned(),
            "Mcp-Name: echo".to_owned(),
        ];
        let reply = server.post(&headers, call.to_string().as_bytes()).await;
        assert_eq!((reply.answers(), reply.status), (vec![(json!(7), 0)], 200));
        assert!(reply.body.len() > megabytes << 20);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_trickles_or_never_ends_is_given_up() {
    let server = Http::start(HttpOptions {
        read_timeout: Duration::from_millis(500),
        ..HttpOptions::default()
    })
    .await;
    let whole = request(
        server.address,
        "POST",
        &modern(&["Content-Type: application/json"]),
        &ping(),
    );
    let n_head = whole.len() - ping().len();
    // One byte at a time.
    let mut stream = server.connect().await;
    stream.write_all(&whole[..n_head]).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let body = whole[n_head..].to_vec();
    let trickle = tokio::spawn(async move {
        for byte in body {
            if writer.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let mut answer = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut reader, &mut answer).await;
    trickle.abort();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    // A head that never ends: the connection is closed.
    let mut stream = server.connect().await;
    stream.write_all(&whole[..20]).await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut answer).await;
    // A body that is cut off.
    let mut stream = server.connect().await;
    stream.write_all(&whole[..whole.len() - 5]).await.unwrap();
    stream.shutdown().await.unwrap();
    let reply = read_reply(&mut stream).await;
    assert_eq!(
        (reply.answers(), reply.status),
        (vec![(Value::Null, -32_700)], 400)
    );
    // The server goes on.
    assert_eq!(status(&server, &[]).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn media_types_are_as_wide_as_they_can_be() {
    let server = Http::start(HttpOptions::default()).await;
    let post = |accept: Option<&str>, kind: &str| {
        let mut headers = modern(&[]);
        headers.push(format!("Content-Type: {kind}"));
        headers.extend(accept.map(|accept| format!("Accept: {accept}")));
        request(server.address, "POST", &headers, &ping())
    };
    for (accept, kind, wanted) in [
        (None, "application/json", 200),
        (Some("*/*"), "application/json; charset=utf-8", 200),
        (Some("application/json"), "application/json", 406),
        (None, "text/plain", 415),
    ] {
        let reply = server.raw(&post(accept, kind)).await;
        assert_eq!(reply.status, wanted, "{accept:?} {kind}");
        assert_eq!(
            reply.answers().len(),
            1,
            "an error is JSON-RPC too: {reply:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_needs_no_token_and_readiness_says_why_not() {
    let server = Http::start(HttpOptions {
        token: Token::new(TOKEN),
        ready: Some(std::sync::Arc::new(|| Err("the model is loading".into()))),
        ..HttpOptions::default()
    })
    .await;
    let get = |path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            server.address
        )
    };
    let healthy = server.raw(get("/healthz").as_bytes()).await;
    assert_eq!((healthy.status, healthy.body.as_str()), (200, "ok"));
    let ready = server.raw(get("/readyz").as_bytes()).await;
    assert_eq!(
        (ready.status, ready.body.as_str()),
        (503, "the model is loading")
    );
    assert_eq!(server.raw(get("/").as_bytes()).await.status, 401);
}
