use std::time::Duration;

use pkm_engine::{NoteDraft, NoteId, ReindexScope};
use rmcp::{
    ServiceError,
    model::{
        ErrorCode, ProtocolVersion, ServerNotification, SubscribeRequestParams, SubscriptionFilter,
        UnsubscribeRequestParams,
    },
    service::{Subscription, SubscriptionEnd},
};
use serde_json::json;
use tokio::time::Instant;

use crate::support::{Home, Model, News, Session, modern, session, session_of};

fn draft(title: &str) -> NoteDraft {
    NoteDraft {
        title: title.into(),
        content: "text".into(),
        ..NoteDraft::default()
    }
}

#[expect(deprecated, reason = "sessions with a handshake subscribe this way")]
async fn subscribe(session: &Session, uri: &str) -> Result<(), ServiceError> {
    session
        .client
        .subscribe(SubscribeRequestParams::new(uri))
        .await
}

#[expect(deprecated, reason = "sessions with a handshake unsubscribe this way")]
async fn unsubscribe(session: &Session, uri: &str) {
    let request = UnsubscribeRequestParams::new(uri);
    session.client.unsubscribe(request).await.unwrap();
}

async fn listen(session: &Session, filter: SubscriptionFilter) -> Subscription {
    session.client.listen(filter).await.unwrap()
}

/// What the stream says next.
async fn next(stream: &mut Subscription) -> News {
    match stream.next().await.unwrap().unwrap() {
        ServerNotification::ResourceUpdatedNotification(update) => News::Updated(update.params.uri),
        ServerNotification::ResourceListChangedNotification(_) => News::ListChanged,
        other => panic!("not asked for: {other:?}"),
    }
}

fn updated(uri: &str) -> News {
    News::Updated(uri.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_hears_of_the_notes_it_subscribed_to_whoever_changes_them() {
    let session = session().await;
    let (one, two) = (session.add("One", "a").await, session.add("Two", "b").await);
    session.hear(&[News::ListChanged]).await;
    subscribe(&session, &format!("note://{one}")).await.unwrap();
    session
        .ask("update_note", json!({"id": two, "append": "x"}))
        .await;
    session
        .ask("update_note", json!({"id": one, "append": "x"}))
        .await;
    let others = session.hear(&[updated("note://1")]).await;
    assert!(!others.contains(&updated("note://2")), "{others:?}");

    let elsewhere = session.home.second_engine();
    elsewhere.delete_note(NoteId(one), None).unwrap();
    session
        .hear(&[updated("note://1"), News::ListChanged])
        .await;

    unsubscribe(&session, "note://1").await;
    elsewhere.restore_note(NoteId(one), None).unwrap();
    let others = session.hear(&[News::ListChanged]).await;
    assert_eq!(others, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_hears_of_a_new_title_and_not_of_a_new_text_as_a_change_of_the_list() {
    let session = session().await;
    let id = session.add("One", "a").await;
    assert_eq!(session.news().await, News::ListChanged);
    subscribe(&session, "note://1").await.unwrap();
    session
        .ask("update_note", json!({"id": id, "append": "x"}))
        .await;
    assert_eq!(session.news().await, updated("note://1"));
    session
        .ask("update_note", json!({"id": id, "title": "Uno"}))
        .await;
    session
        .hear(&[News::ListChanged, updated("note://1")])
        .await;
    subscribe(&session, "pkm://status").await.unwrap();
    session
        .ask("update_note", json!({"id": id, "append": "y"}))
        .await;
    session.hear(&[updated("pkm://status")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_changes_are_few_notifications_and_the_last_change_leads_to_one() {
    let session = session().await;
    let begun = Instant::now();
    for number in 0..40 {
        session
            .home
            .engine
            .add_note(draft(&format!("n{number}")))
            .unwrap();
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    let total = || async {
        let listed = session.ask("list_notes", json!({"limit": 1})).await;
        listed["total"].as_u64().unwrap()
    };
    // Each notification is a reason to look; after the last one there is nothing more to see.
    let mut n_heard = 0;
    let mut seen = 0;
    while seen < 40 {
        assert_eq!(session.news().await, News::ListChanged);
        n_heard += 1;
        seen = total().await;
    }
    let most = begun.elapsed().as_secs() + 2;
    assert!(n_heard <= most, "{n_heard} in {most} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_is_not_there_cannot_be_subscribed_to() {
    let session = session().await;
    for uri in ["note://404", "pkm://jobs/404", "file:///etc/passwd"] {
        let Err(ServiceError::McpError(error)) = subscribe(&session, uri).await else {
            panic!("subscribed to {uri}")
        };
        assert_eq!(error.code, ErrorCode::RESOURCE_NOT_FOUND);
        assert_eq!(error.data.unwrap()["uri"], uri);
    }
    unsubscribe(&session, "note://404").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_says_what_it_will_tell_and_tells_nothing_else() {
    let session = session_of(ProtocolVersion::V_2026_07_28, Model::Hash).await;
    let id = session.add("One", "a").await;
    let uri = format!("note://{id}");
    let filter = SubscriptionFilter::builder()
        .tools_list_changed()
        .prompts_list_changed()
        .resources_list_changed()
        .resource_subscriptions([uri.as_str(), "pkm://jobs/1", "file:///etc/passwd"])
        .build();
    let mut stream = listen(&session, filter).await;
    let accepted = SubscriptionFilter::builder()
        .resources_list_changed()
        .resource_subscriptions([uri.as_str(), "pkm://jobs/1"])
        .build();
    assert_eq!(*stream.acknowledged(), accepted);

    session
        .ask("update_note", json!({"id": id, "append": "x"}))
        .await;
    assert_eq!(next(&mut stream).await, updated(&uri));
    session.add("Two", "b").await;
    assert_eq!(next(&mut stream).await, News::ListChanged);
    session.home.engine.reindex(ReindexScope::All).unwrap();
    assert_eq!(next(&mut stream).await, updated("pkm://jobs/1"));
    stream.cancel().await.unwrap();
    session.ask("index_status", json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_misses_nothing_from_its_acknowledgement_on() {
    let home = Home::new(Model::Hash);
    for _ in 0..5 {
        let mut raw = home.raw();
        let params = json!({"notifications": {"resourcesListChanged": true}});
        let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
            "params": modern(params, &json!({}))});
        raw.send(listen).await;
        let acknowledged = raw.receive().await;
        assert_eq!(
            acknowledged["method"],
            "notifications/subscriptions/acknowledged"
        );
        home.engine.add_note(draft("n")).unwrap();
        let told = raw.receive().await;
        assert_eq!(told["method"], "notifications/resources/list_changed");
        assert_eq!(
            told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
            1
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_in_due_form_when_the_server_stops() {
    for filter in [
        SubscriptionFilter::builder()
            .resources_list_changed()
            .build(),
        SubscriptionFilter::builder().tools_list_changed().build(),
    ] {
        let session = session_of(ProtocolVersion::V_2026_07_28, Model::Hash).await;
        let mut stream = listen(&session, filter).await;
        session.home.stop.cancel();
        assert!(stream.next().await.unwrap().is_none());
        assert!(
            matches!(stream.end(), Some(SubscriptionEnd::Graceful(_))),
            "{:?}",
            stream.end()
        );
        session.ask("index_status", json!({})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_holds_up_nobody() {
    let home = Home::new(Model::Hash);
    // Its pipe holds a few bytes only, and it never reads again.
    let mut deaf = home.raw_with(64);
    let params = json!({"notifications": {"resourcesListChanged": true,
        "resourceSubscriptions": ["pkm://status"]}});
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
        "params": modern(params, &json!({}))});
    deaf.send(listen).await;
    let hearing = home.connect(ProtocolVersion::V_2025_11_25).await;
    for title in ["a", "b", "c"] {
        hearing.add(title, "text").await;
        assert_eq!(hearing.news().await, News::ListChanged);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_a_resource() {
    let session = session().await;
    session.add("One", "some words").await;
    let job = session
        .ask("reindex_notes", json!({"scope": "all", "wait_seconds": 55}))
        .await;
    let read = session
        .client
        .read_resource(rmcp::model::ReadResourceRequestParams::new("pkm://jobs/1"))
        .await
        .unwrap();
    let rmcp::model::ResourceContents::TextResourceContents {
        text, mime_type, ..
    } = &read.contents[0]
    else {
        panic!("no text: {read:?}")
    };
    assert_eq!(mime_type.as_deref(), Some("application/json"));
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(text).unwrap(),
        job
    );
    let complete = async |value: &str| {
        let uri = "pkm://jobs/{id}";
        let completed = session
            .client
            .complete_resource_argument(uri, "id", value, None)
            .await;
        completed.unwrap().values
    };
    assert_eq!(complete("").await, ["1"]);
    assert_eq!(complete("2").await, [""; 0]);
}

#[tokio::test]
async fn what_is_offered_is_true() {
    let home = Home::new(Model::Hash);
    let mut raw = home.raw();
    let offered = raw.shake_hands(json!({})).await;
    assert_eq!(
        offered["resources"],
        json!({"subscribe": true, "listChanged": true})
    );
    for none in ["tools", "prompts"] {
        assert_eq!(offered[none].get("listChanged"), None);
    }
    assert_eq!(offered.get("logging"), None);
}
