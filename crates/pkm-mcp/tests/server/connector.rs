use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};

use crate::support::{Home, Session, session, text_of};

async fn connected() -> Session {
    Home::with_connector_tools()
        .connect(ProtocolVersion::V_2025_11_25)
        .await
}

/// The structured content, which is also the one text.
async fn both(session: &Session, tool: &str, arguments: Value) -> Value {
    let result = session.call(tool, arguments).await.unwrap();
    assert_eq!((result.is_error, result.content.len()), (Some(false), 1));
    let content = result.structured_content.clone().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&text_of(&result)).unwrap(),
        content
    );
    content
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_gives_what_fetch_takes() {
    let session = connected().await;
    let draft = json!({"title": "김치찌개", "content": "두부와 돼지고기", "folder": "요리", "tags": ["a", "b"]});
    session.ask("add_note", draft).await;
    session.add("Kyoto", "maple").await;
    let found = both(&session, "search", json!({"query": "두부"})).await;
    assert_eq!(
        found["results"][0],
        json!({"id": "1", "title": "김치찌개", "url": "note://1"})
    );
    for id in ["1", "note://1"] {
        let document = both(&session, "fetch", json!({"id": id})).await;
        assert_eq!(
            (&document["id"], &document["url"]),
            (&json!("1"), &json!("note://1"))
        );
        assert_eq!(document["text"], "두부와 돼지고기");
        assert_eq!(document["metadata"]["folder"], "요리");
        assert_eq!(document["metadata"]["tags"], "a, b");
        assert_eq!(document["metadata"].get("truncated"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_refused_in_words() {
    let session = connected().await;
    assert_eq!(
        session.refused("fetch", json!({"id": "404"})).await["code"],
        "not_found"
    );
    for (tool, arguments, field) in [
        ("fetch", json!({"id": "first"}), "id"),
        ("fetch", json!({}), "id"),
        ("search", json!({"query": " "}), "query"),
        ("search", json!({"query": "a", "limit": 3}), "limit"),
    ] {
        assert_eq!(session.refused(tool, arguments).await["field"], field);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_very_long_note_says_that_it_was_cut() {
    let session = connected().await;
    session.add("long", &"word ".repeat(60_000)).await;
    let document = both(&session, "fetch", json!({"id": "1"})).await;
    assert_eq!(document["metadata"]["truncated"], "true");
    assert!(document["text"].as_str().unwrap().len() <= 200_000);
}

#[tokio::test]
async fn they_are_offered_to_those_who_ask_for_them_only() {
    let names = async |session: Session| {
        let tools = session.client.list_tools(None).await.unwrap().tools;
        tools
            .into_iter()
            .map(|tool| tool.name.into_owned())
            .collect::<Vec<_>>()
    };
    let (with, without) = (names(connected().await).await, names(session().await).await);
    let more: Vec<_> = with.iter().filter(|name| !without.contains(name)).collect();
    assert_eq!(more, ["fetch", "search"]);
}
