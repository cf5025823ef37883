//! Requests in flight, clients that leave or do not read, sessions, the end.

use std::time::Duration;

use pkm_transport::{StdioOptions, http::HttpOptions};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::support::{
    Http, MODERN, Probe, Stdio, answer_of, cancellation, handshake, lines, meta, on_stdio,
    read_reply,
};

fn wait(id: i64, ms: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "wait", "arguments": {"ms": ms}, "_meta": {"progressToken": id}}})
}

fn modern_wait(ms: u64) -> (Vec<String>, Vec<u8>) {
    let mut call = wait(7, ms);
    call["params"]["_meta"] = meta();
    call["params"]["_meta"]["progressToken"] = json!("p");
    let headers = vec![
        format!("MCP-Protocol-Version: {MODERN}"),
        "Mcp-Method: tools/call".to_owned(),
        "Mcp-Name: wait".to_owned(),
    ];
    (headers, call.to_string().into())
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":8,"method":"tools/list"}"#;

async fn until(mut condition: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to pass");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_in_flight_is_refused_and_the_first_gets_its_answer() {
    let mut server = Stdio::start(Probe::default(), StdioOptions::default());
    server.send(&lines(&handshake("2025-11-25"))).await;
    assert_eq!(server.next().await["id"], "init");
    server.send(&lines(&[wait(7, 1_000)])).await;
    assert_eq!(server.next().await["method"], "notifications/progress");
    server.send(&lines(&[wait(7, 0)])).await;
    assert_eq!(answer_of(&server.next().await), Some((json!(7), -32_600)));
    let rest = server.finish().await;
    let answers: Vec<_> = rest.iter().filter_map(answer_of).collect();
    assert_eq!(answers, [(json!(7), 0)]);

    let server = Http::start(HttpOptions::default()).await;
    let session = server.session("2025-11-25").await;
    let body = wait(7, 1_000).to_string();
    let first = server.post(&session, body.as_bytes());
    let second = async {
        until(|| server.probe.waits().0 == 1).await;
        server.post(&session, body.as_bytes()).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(
        (second.answers(), second.status),
        (vec![(json!(7), -32_600)], 400)
    );
    assert_eq!(first.answers(), [(json!(7), 0)]);
    // The id is free again.
    assert_eq!(
        server.post(&session, body.as_bytes()).await.answers(),
        [(json!(7), 0)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_request_is_not_answered_and_the_next_one_is() {
    let cancel = cancellation(7);
    let probe = Probe::default();
    let mut server = Stdio::start(probe.clone(), StdioOptions::default());
    server.send(&lines(&handshake("2025-11-25"))).await;
    server.next().await;
    server.send(&lines(&[wait(7, 60_000)])).await;
    server.next().await;
    server
        .send(&lines(&[
            cancel.clone(),
            serde_json::from_str(LIST).unwrap(),
        ]))
        .await;
    assert_eq!(server.next().await["id"], 8);
    assert!(server.finish().await.is_empty());
    assert_eq!(probe.waits(), (1, 0, 1));

    // Over HTTP, by a message of its own.
    let server = Http::start(HttpOptions::default()).await;
    let session = server.session("2025-11-25").await;
    let _stream = server
        .open(&session, wait(7, 60_000).to_string().as_bytes())
        .await;
    until(|| server.probe.waits().0 == 1).await;
    assert_eq!(
        server
            .post(&session, cancel.to_string().as_bytes())
            .await
            .status,
        202
    );
    until(|| server.probe.waits().2 == 1).await;
    assert_eq!(
        server.post(&session, LIST.as_bytes()).await.answers(),
        [(json!(8), 0)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_was_cancelled_is_in_use_until_its_call_has_ended() {
    let cancel = cancellation(7);
    for _ in 0..10 {
        let mut input = lines(&handshake("2025-11-25"));
        // All in one write: the second call must not get what the first one came to.
        input.extend(lines(&[wait(7, 60_000), cancel.clone(), wait(7, 1)]));
        let said = on_stdio(&input, StdioOptions::default()).await;
        let answers: Vec<_> = said.iter().filter_map(answer_of).collect();
        assert_eq!(answers.len(), 2, "{said:?}");
        assert!(
            !said
                .iter()
                .any(|message| message.to_string().contains("60000")),
            "{said:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_before_the_input_ended_is_answered() {
    for _ in 0..20 {
        let mut input = lines(&handshake("2025-11-25"));
        input.extend(lines(&(0..5).map(|id| wait(id, 20)).collect::<Vec<_>>()));
        let said = on_stdio(&input, StdioOptions::default()).await;
        assert_eq!(said.iter().filter_map(answer_of).count(), 6, "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_cancels_in_the_newest_revision_and_not_before() {
    let server = Http::start(HttpOptions::default()).await;
    let (headers, body) = modern_wait(60_000);
    let stream = server.open(&headers, &body).await;
    until(|| server.probe.waits().0 == 1).await;
    assert_eq!(server.probe.waits(), (1, 0, 0));
    drop(stream);
    until(|| server.probe.waits().2 == 1).await;

    let session = server.session("2025-11-25").await;
    let stream = server
        .open(&session, wait(7, 700).to_string().as_bytes())
        .await;
    until(|| server.probe.waits().0 == 2).await;
    drop(stream);
    until(|| server.probe.waits().1 == 1).await;
    assert_eq!(server.probe.waits(), (2, 1, 1));
    assert_eq!(
        server.post(&session, LIST.as_bytes()).await.answers(),
        [(json!(8), 0)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_stays_in_use_while_its_call_goes_on_without_its_client() {
    let server = Http::start(HttpOptions::default()).await;
    let session = server.session("2025-11-25").await;
    let body = wait(7, 2_000).to_string();
    let stream = server.open(&session, body.as_bytes()).await;
    until(|| server.probe.waits().0 == 1).await;
    drop(stream);
    let reply = server.post(&session, body.as_bytes()).await;
    assert_eq!(reply.answers(), [(json!(7), -32_600)]);
    until(|| server.probe.waits().1 == 1).await;
    let mut last = Vec::new();
    for _ in 0..1_000 {
        last = server.post(&session, body.as_bytes()).await.answers();
        if last == [(json!(7), 0)] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(last, [(json!(7), 0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_before_the_handshake_does_not_end_the_server() {
    let early = [
        cancellation(1),
        json!({"jsonrpc": "2.0", "method": "notifications/unknown"}),
        json!({"jsonrpc": "2.0", "id": 9, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta()}}),
        cancellation(1),
        json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"}),
    ];
    let mut input = lines(&early);
    input.extend(lines(&handshake("2025-11-25")));
    input.extend(lines(&[serde_json::from_str(LIST).unwrap()]));
    let said = on_stdio(&input, StdioOptions::default()).await;
    let answered: Vec<_> = said.iter().filter_map(answer_of).collect();
    for answer in [
        (json!(2), 0),
        (json!(3), -32_602),
        (json!("init"), 0),
        (json!(8), 0),
    ] {
        assert!(answered.contains(&answer), "{answer:?} in {answered:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_ends_is_a_normal_end() {
    for input in ["", "\n\n", "{\"jsonrpc\":\"2.0\",\"id\":", "{}\n"] {
        on_stdio(input.as_bytes(), StdioOptions::default()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_up_to_the_limit_are_taken_and_longer_ones_are_answered() {
    let long = |megabytes: usize| {
        json!({"method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x".repeat(megabytes << 20)}},
            "jsonrpc": "2.0", "id": megabytes})
    };
    let mut input = lines(&handshake("2025-11-25"));
    input.extend(lines(&[long(10), long(17)]));
    let said = on_stdio(&input, StdioOptions::default()).await;
    let mut answers: Vec<_> = said.iter().filter_map(answer_of).skip(1).collect();
    answers.sort_by_key(|(id, _)| id.as_u64());
    assert_eq!(answers, [(json!(10), 0), (json!(17), 0)]);

    let options = StdioOptions {
        max_message_bytes: 16 << 20,
        ..StdioOptions::default()
    };
    let said = on_stdio(&input, options).await;
    let mut answers: Vec<_> = said.iter().filter_map(answer_of).skip(1).collect();
    answers.sort_by_key(|(id, _)| id.as_u64());
    assert_eq!(answers, [(json!(10), 0), (json!(17), -32_600)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_does_not_keep_the_server_alive() {
    // Over stdio the input ends all the same.
    let mut server = Stdio::start(Probe::default(), StdioOptions::default());
    server.send(&lines(&handshake("2025-11-25"))).await;
    for id in 0..20 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "echo", "arguments": {"text": "x".repeat(1 << 20)}}});
        server.send(&lines(&[call])).await;
    }
    let said = server.finish().await;
    assert_eq!(said.len(), 21);

    // Over HTTP the others are served, and the stop is not held up for ever.
    let server = Http::start(HttpOptions {
        drain: Duration::from_millis(200),
        ..HttpOptions::default()
    })
    .await;
    let session = server.session("2025-11-25").await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "x".repeat(20 << 20)}}});
    let mut stream = server.open(&session, call.to_string().as_bytes()).await;
    // It is being answered, and nobody reads on.
    stream.read_exact(&mut [0; 12]).await.unwrap();
    let other = server.session("2025-11-25").await;
    assert_eq!(
        server.post(&other, LIST.as_bytes()).await.answers(),
        [(json!(8), 0)]
    );
    server.stop.cancel();
    server.served.await.unwrap().unwrap();
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_requests_finish() {
    let server = Http::start(HttpOptions::default()).await;
    let (headers, body) = modern_wait(700);
    let mut stream = server.open(&headers, &body).await;
    until(|| server.probe.waits().0 == 1).await;
    server.stop.cancel();
    let reply = read_reply(&mut stream).await;
    assert_eq!(reply.answers(), [(json!(7), 0)]);
    server.served.await.unwrap().unwrap();
    assert!(
        tokio::net::TcpStream::connect(server.address)
            .await
            .is_err()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_have_a_cap_and_the_one_that_was_idle_longest_makes_room() {
    let server = Http::start(HttpOptions {
        max_sessions: 2,
        ..HttpOptions::default()
    })
    .await;
    let first = server.session("2025-11-25").await;
    let second = server.session("2025-11-25").await;
    assert_eq!(server.post(&first, LIST.as_bytes()).await.status, 200);
    let third = server.session("2025-11-25").await;
    assert_eq!(server.post(&second, LIST.as_bytes()).await.status, 404);
    assert_eq!(server.post(&first, LIST.as_bytes()).await.status, 200);

    // Whatever a handshake says of itself.
    let mut odd = handshake("2026-07-28")[0].clone();
    odd["params"]["_meta"] = meta();
    for headers in [vec![], vec![format!("MCP-Protocol-Version: {MODERN}")]] {
        for _ in 0..5 {
            server.post(&headers, odd.to_string().as_bytes()).await;
        }
    }
    assert_eq!(server.post(&third, LIST.as_bytes()).await.status, 404);
    let first = server.session("2025-11-25").await;
    let third = server.session("2025-11-25").await;

    // Where every session is at work, a new one has to wait.
    let call = wait(7, 1_500).to_string();
    let busy = [&first, &third].map(|session| server.post(session, call.as_bytes()));
    let late = async {
        until(|| server.probe.waits().0 == 2).await;
        server
            .post(&[], handshake("2025-11-25")[0].to_string().as_bytes())
            .await
    };
    let [one, two] = busy;
    let (late, one, two) = tokio::join!(late, one, two);
    assert_eq!(
        (late.answers(), late.status),
        (vec![(json!("init"), -32_000)], 429)
    );
    assert!(late.header("retry-after").is_some());
    assert_eq!((one.status, two.status), (200, 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_at_work_outlives_its_idle_time_and_an_idle_one_does_not() {
    let server = Http::start(HttpOptions {
        session_idle: Duration::from_secs(2),
        ..HttpOptions::default()
    })
    .await;
    let session = server.session("2025-11-25").await;
    let reply = server
        .post(&session, wait(7, 5_000).to_string().as_bytes())
        .await;
    assert_eq!(reply.answers(), [(json!(7), 0)]);
    let mut last = 200;
    for _ in 0..10 {
        // Looking at it makes it busy, so there is time between two looks.
        tokio::time::sleep(Duration::from_secs(4)).await;
        last = server.post(&session, LIST.as_bytes()).await.status;
        if last == 404 {
            break;
        }
    }
    assert_eq!(last, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_have_a_cap() {
    let server = Http::start(HttpOptions {
        max_in_flight: 1,
        ..HttpOptions::default()
    })
    .await;
    let (headers, body) = modern_wait(1_000);
    let first = server.post(&headers, &body);
    let second = async {
        until(|| server.probe.waits().0 == 1).await;
        server.post(&headers, &body).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.answers(), [(json!(7), 0)]);
    assert_eq!(
        (second.answers(), second.status),
        (vec![(json!(7), 429)], 429)
    );
    assert_eq!(second.header("retry-after"), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cap_counts_calls_and_not_connections() {
    let server = Http::start(HttpOptions {
        max_in_flight: 2,
        ..HttpOptions::default()
    })
    .await;
    // Members of a batch.
    let session = server.session("2025-03-26").await;
    let batch = json!([wait(1, 50), wait(2, 50), wait(3, 50)]);
    let answers = server
        .post(&session, batch.to_string().as_bytes())
        .await
        .answers();
    assert_eq!(answers, [(json!(1), 0), (json!(2), 0), (json!(3), -32_000)]);

    // Calls whose clients have left.
    let before = server.probe.waits().0;
    for id in 11..13 {
        let body = wait(id, 60_000).to_string();
        let stream = server.open(&session, body.as_bytes()).await;
        until(|| server.probe.waits().0 == before + id as usize - 10).await;
        drop(stream);
    }
    let reply = server.post(&session, LIST.as_bytes()).await;
    assert_eq!(
        (reply.answers(), reply.status),
        (vec![(json!(8), -32_000)], 429)
    );
    // A cancellation gets through, and makes room.
    let cancel = cancellation(11);
    let reply = server.post(&session, cancel.to_string().as_bytes()).await;
    assert_eq!(reply.status, 202);
    let mut last = 429;
    for _ in 0..1_000 {
        last = server.post(&session, LIST.as_bytes()).await.status;
        if last == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(last, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_loses_its_connection_and_its_place() {
    let server = Http::start(HttpOptions {
        max_in_flight: 1,
        write_timeout: Duration::from_millis(200),
        ..HttpOptions::default()
    })
    .await;
    let mut headers = modern_wait(0).0;
    headers.truncate(2);
    headers.push("Mcp-Name: echo".to_owned());
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "echo", "arguments": {"text": "x".repeat(20 << 20)}, "_meta": meta()}});
    let mut stream = server.open(&headers, call.to_string().as_bytes()).await;
    stream.read_exact(&mut [0; 12]).await.unwrap();
    let mut last = 429;
    for _ in 0..1_000 {
        last = server
            .post(&[], handshake("2025-11-25")[0].to_string().as_bytes())
            .await
            .status;
        if last == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(last, 200);
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_deleted_is_gone() {
    let server = Http::start(HttpOptions::default()).await;
    let session = server.session("2025-11-25").await;
    assert_eq!(server.request("DELETE", &session, b"").await.status, 204);
    let reply = server.post(&session, LIST.as_bytes()).await;
    assert_eq!(
        (reply.answers(), reply.status),
        (vec![(json!(8), -32_600)], 404)
    );
    let reply = server.post(&[], LIST.as_bytes()).await;
    assert_eq!(
        (reply.answers(), reply.status),
        (vec![(json!(8), -32_600)], 400)
    );
}
