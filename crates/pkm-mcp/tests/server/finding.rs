use serde_json::json;

use crate::support::{Model, session, session_of, text_of};
use rmcp::model::ProtocolVersion;

#[tokio::test]
async fn a_search_gives_the_passage_with_its_place() {
    let session = session().await;
    let content = "# 회의\n\n첫 줄\n\n## 결정\n\n인증을 다음 주에 정한다.\n";
    let note = json!({"title": "회의록", "content": content, "tags": ["회의"], "folder": "work"});
    let id = session.ask("add_note", note).await["id"].clone();
    let answer = session.ask("search_notes", json!({"query": "인증"})).await;
    let found = &answer["matches"][0];
    assert_eq!(
        (&found["id"], &found["title"], &found["folder"]),
        (&id, &json!("회의록"), &json!("work"))
    );
    assert_eq!(found["tags"], json!(["회의"]));
    assert_eq!(found["heading"][0], "회의");
    assert!(found["snippet"].as_str().unwrap().contains("인증을"));
    let lines = [
        found["lines"][0].as_u64().unwrap(),
        found["lines"][1].as_u64().unwrap(),
    ];
    assert!((lines[0]..=lines[1]).contains(&7), "{lines:?}");
    assert_eq!(answer["index"]["state"], "complete");
    let text = session.text("search_notes", json!({"query": "인증"})).await;
    assert!(
        text.contains(&format!("[id {id}] 회의록 in work")),
        "{text}"
    );
}

#[tokio::test]
async fn both_modes_find_by_meaning_and_show_their_arms() {
    let session = session().await;
    let near = session
        .add("Sourdough", "feed the starter with flour and water")
        .await;
    session.add("Kyoto", "maple leaves in late November").await;
    for mode in ["hybrid", "vector"] {
        let query = json!({"query": "feed the starter with flour", "mode": mode, "limit": 1});
        let answer = session.ask("semantic_search_notes", query).await;
        let found = &answer["matches"][0];
        assert_eq!(found["id"], near);
        assert_eq!(found["arms"]["vector"], 1, "{answer}");
        assert_eq!(
            found["arms"].get("keyword").is_some(),
            mode == "hybrid",
            "{answer}"
        );
        assert!(found["similarity"].as_f64().unwrap() > 0.5, "{answer}");
    }
}

#[tokio::test]
async fn related_notes_leave_the_note_out() {
    let session = session().await;
    let first = session.add("One", "flour and water and salt").await;
    let second = session.add("Two", "flour and water and yeast").await;
    assert_eq!(
        session.found("related_notes", json!({"id": first})).await,
        [second]
    );
    // Models write ids as strings now and then.
    assert_eq!(
        session
            .found("related_notes", json!({"id": second.to_string()}))
            .await,
        [first]
    );
}

#[tokio::test]
async fn filters_and_cursors_pass_through() {
    let session = session().await;
    for number in 0..7 {
        let folder = if number % 2 == 0 { "even" } else { "odd" };
        let note =
            json!({"title": format!("n{number}"), "content": "shared word", "folder": folder});
        session.ask("add_note", note).await;
    }
    let even = json!({"query": "shared", "folder": "even"});
    assert_eq!(session.found("search_notes", even).await.len(), 4);
    let future = json!({"query": "shared", "updated_after": "2999-01-01"});
    assert_eq!(session.found("search_notes", future).await.len(), 0);

    let mut seen = Vec::new();
    let mut request = json!({"query": "shared", "limit": 3});
    loop {
        let page = session.ask("search_notes", request.clone()).await;
        seen.extend(
            page["matches"]
                .as_array()
                .unwrap()
                .iter()
                .map(|found| found["id"].as_i64().unwrap()),
        );
        let Some(cursor) = page.get("next_cursor") else {
            break;
        };
        request["cursor"] = cursor.clone();
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 7);
}

#[tokio::test]
async fn fifty_long_notes_fit_one_answer_and_the_cut_is_marked() {
    let session = session_of(ProtocolVersion::V_2025_11_25, Model::Absent).await;
    let title = "긴 제목 ".repeat(40);
    let content = "분기보고: 매출과 지원의 숫자를 자세히 적는다.\n".repeat(200);
    for number in 0..50 {
        session.add(&format!("{number} {title}"), &content).await;
    }
    for tool in ["search_notes", "semantic_search_notes"] {
        let result = session
            .call(tool, json!({"query": "분기보고", "limit": 50}))
            .await
            .unwrap();
        let text = text_of(&result);
        let content = result.structured_content.clone().unwrap();
        assert_eq!(content["matches"].as_array().unwrap().len(), 50);
        assert_eq!(content["matches"][0]["cut"], true);
        assert!(
            content["matches"][0]["snippet"]
                .as_str()
                .unwrap()
                .contains('…')
        );
        let size = serde_json::to_string(&result).unwrap().len();
        assert!(size < 55_000, "{tool}: {size} bytes");
        assert!(text.contains("get_note"), "{text}");
    }
}

#[tokio::test]
async fn an_empty_answer_from_an_incomplete_index_says_so() {
    let session = session_of(ProtocolVersion::V_2025_11_25, Model::Absent).await;
    let text = session
        .text("semantic_search_notes", json!({"query": "nothing"}))
        .await;
    assert!(text.contains("no notes yet"), "{text}");
    session.add("One", "word").await;
    let result = session
        .call("semantic_search_notes", json!({"query": "nothing"}))
        .await
        .unwrap();
    let content = result.structured_content.clone().unwrap();
    assert_eq!(
        (&content["matches"], &content["index"]["state"]),
        (&json!([]), &json!("keyword_only"))
    );
    let text = text_of(&result);
    assert!(
        text.contains("words alone") && text.contains("not installed"),
        "{text}"
    );
}

#[tokio::test]
async fn a_list_has_the_notes_without_their_text() {
    let session = session().await;
    let first = session.add("B", "text of b").await;
    let second = session.add("A", "text of a").await;
    let listed = session.ask("list_notes", json!({"sort": "title"})).await;
    let ids: Vec<_> = listed["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| note["id"].clone())
        .collect();
    assert_eq!(
        (ids, &listed["total"]),
        (vec![json!(second), json!(first)], &json!(2))
    );
    assert!(!listed.to_string().contains("text of"));
    let page = session.ask("list_notes", json!({"limit": 1})).await;
    let rest = session
        .ask(
            "list_notes",
            json!({"limit": 1, "cursor": page["next_cursor"]}),
        )
        .await;
    assert_eq!(rest["notes"].as_array().unwrap().len(), 1);
    assert_ne!(page["notes"], rest["notes"]);
}

#[tokio::test]
async fn the_status_counts_what_is_there() {
    let session = session().await;
    session.add("One", "some words").await;
    let status = session.ask("index_status", json!({})).await;
    assert_eq!(
        (&status["notes"], &status["indexed"], &status["pending"]),
        (&json!(1), &json!(1), &json!(0))
    );
    assert_eq!(
        (&status["model"]["state"], &status["model"]["dim"]),
        (&json!("ready"), &json!(64))
    );
    assert!(
        status["store"]["path_hint"]
            .as_str()
            .unwrap()
            .ends_with("/data"),
        "{status}"
    );
}
