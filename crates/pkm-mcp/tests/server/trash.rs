use std::sync::Arc;

use rmcp::model::{
    CallToolResponse, ClientCapabilities, ElicitResult, ElicitationAction, ElicitationCapability,
    FormElicitationCapability, ProtocolVersion,
};
use serde_json::{Value, json};

use crate::support::{Home, Model, Session, call_of, modern};

fn can_ask() -> ClientCapabilities {
    let kinds = ElicitationCapability::new().with_form(FormElicitationCapability::new());
    ClientCapabilities::builder()
        .enable_elicitation_with(kinds)
        .build()
}

fn yes() -> ElicitResult {
    ElicitResult::new(ElicitationAction::Accept).with_content(json!({"confirm": true}))
}

async fn session_that_can_ask(home: &Arc<Home>, revision: ProtocolVersion) -> Session {
    home.connect_as(revision, can_ask()).await
}

/// Adds notes and puts them into the trash, the first one changed before.
async fn throw_away(session: &Session, titles: &[&str]) {
    for title in titles {
        let id = session.add(title, "text").await;
        session
            .ask("update_note", json!({"id": id, "append": "more"}))
            .await;
        session.ask("delete_note", json!({"id": id})).await;
    }
}

fn in_trash(home: &Home) -> usize {
    home.engine.trash_contents(None).unwrap().n_notes
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_is_asked_in_both_eras_and_yes_deletes_for_good() {
    for revision in [
        ProtocolVersion::V_2025_06_18,
        ProtocolVersion::V_2025_11_25,
        ProtocolVersion::V_2026_07_28,
    ] {
        let home = Home::new(Model::Hash);
        let session = session_that_can_ask(&home, revision).await;
        session.add("kept", "text").await;
        throw_away(&session, &["first", "두 번째"]).await;
        let listener = session.client.service().clone();
        listener.answers.lock().unwrap().push_back(yes());
        let answer = session.ask("empty_trash", json!({})).await;
        assert_eq!(
            answer,
            json!({"outcome": "deleted", "deleted": 2, "revisions": 2, "trashed": 0})
        );
        let questions = listener.questions.lock().unwrap().clone();
        let [question] = questions.as_slice() else {
            panic!("asked {} times", questions.len())
        };
        for word in ["2 notes", "\"first\"", "\"두 번째\"", "for good"] {
            assert!(question.contains(word), "{word} in {question}");
        }
        assert_eq!(
            session.refused("restore_note", json!({"id": 2})).await["code"],
            "not_found"
        );
        session.ask("get_note", json!({"id": 1})).await;
        assert_eq!(home.engine.doctor().unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_and_a_closed_question_delete_nothing() {
    for revision in [ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28] {
        let home = Home::new(Model::Absent);
        let session = session_that_can_ask(&home, revision).await;
        throw_away(&session, &["first"]).await;
        for reply in [
            ElicitResult::new(ElicitationAction::Decline),
            ElicitResult::new(ElicitationAction::Cancel),
            ElicitResult::new(ElicitationAction::Accept).with_content(json!({"confirm": false})),
        ] {
            session
                .client
                .service()
                .answers
                .lock()
                .unwrap()
                .push_back(reply);
            // A number cannot take the user's place where the user can be asked.
            let answer = session.ask("empty_trash", json!({"confirm": 1})).await;
            assert_eq!(answer["outcome"], "declined");
            assert_eq!(
                (&answer["deleted"], &answer["trashed"]),
                (&json!(0), &json!(1))
            );
        }
        assert_eq!(in_trash(&home), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_trash_asks_nobody() {
    let home = Home::new(Model::Absent);
    let session = session_that_can_ask(&home, ProtocolVersion::V_2026_07_28).await;
    let answer = session.ask("empty_trash", json!({})).await;
    assert_eq!(answer["outcome"], "nothing_to_delete");
    throw_away(&session, &["young"]).await;
    let answer = session
        .ask("empty_trash", json!({"deleted_before": "2020-01-01"}))
        .await;
    assert_eq!(
        (&answer["outcome"], &answer["trashed"]),
        (&json!("nothing_to_delete"), &json!(1))
    );
    assert_eq!(session.client.service().questions.lock().unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cannot_ask_must_name_the_number_of_notes() {
    for revision in [
        ProtocolVersion::V_2025_03_26,
        ProtocolVersion::V_2025_11_25,
        ProtocolVersion::V_2026_07_28,
    ] {
        let home = Home::new(Model::Absent);
        let session = home.connect(revision).await;
        throw_away(&session, &["first", "second"]).await;
        for arguments in [json!({}), json!({"confirm": 1}), json!({"confirm": 0})] {
            let refusal = session.refused("empty_trash", arguments).await;
            assert_eq!(refusal["code"], "confirmation_required");
            assert_eq!(
                (&refusal["notes"], &refusal["confirm"]),
                (&json!(2), &json!(2))
            );
        }
        assert_eq!(in_trash(&home), 2);
        let answer = session.ask("empty_trash", json!({"confirm": 2})).await;
        assert_eq!(answer["deleted"], 2);
        assert_eq!(in_trash(&home), 0);
    }
}

/// The state of a first call, which asks.
async fn state_of_question(session: &Session, arguments: Value) -> String {
    let call = call_of("empty_trash", arguments);
    match session.client.call_tool_once(call).await.unwrap() {
        CallToolResponse::InputRequired(asked) => {
            assert!(asked.meta.is_some(), "a question names the server too");
            assert!(asked.input_requests.unwrap().contains_key("confirm"));
            asked.request_state.unwrap()
        }
        other => panic!("not asked: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trash_that_changed_after_the_question_is_asked_about_again() {
    let home = Home::new(Model::Absent);
    let session = session_that_can_ask(&home, ProtocolVersion::V_2026_07_28).await;
    throw_away(&session, &["first"]).await;
    let state = state_of_question(&session, json!({})).await;
    throw_away(&session, &["second"]).await;
    let replies = [("confirm".to_owned(), serde_json::to_value(yes()).unwrap())].into();
    let call = call_of("empty_trash", json!({}))
        .with_request_state(state)
        .with_input_responses(replies);
    let asked = session.client.call_tool_once(call).await.unwrap();
    assert!(
        matches!(asked, CallToolResponse::InputRequired(_)),
        "{asked:?}"
    );
    assert_eq!(in_trash(&home), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_is_good_for_one_use_of_one_call() {
    let home = Home::new(Model::Absent);
    let session = session_that_can_ask(&home, ProtocolVersion::V_2026_07_28).await;
    throw_away(&session, &["first"]).await;
    let state = state_of_question(&session, json!({})).await;
    let mut raw = home.raw();
    let capabilities = json!({"elicitation": {"form": {}}});
    let mut id = 0;
    let mut answer = async |state: &str, arguments: Value, reply: Value| {
        id += 1;
        let call = json!({"name": "empty_trash", "arguments": arguments, "requestState": state,
            "inputResponses": {"confirm": reply, "unasked": 1}});
        raw.request(id, "tools/call", modern(call, &capabilities))
            .await
    };
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    for (state, arguments) in [
        (format!("{state}x"), json!({})),
        ("forged".to_owned(), json!({})),
        (state.clone(), json!({"confirm": 1})),
    ] {
        let refused = answer(&state, arguments, yes.clone()).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert_eq!(refused["error"]["data"]["field"], "requestState");
    }
    let garbled = answer(&state, json!({}), json!({"action": "perhaps"})).await;
    assert_eq!(garbled["error"]["data"]["field"], "inputResponses.confirm");
    let missing = answer(
        &state,
        json!({}),
        json!({"action": "accept", "content": {}}),
    )
    .await;
    assert_eq!(missing["result"]["resultType"], "input_required");
    assert_eq!(in_trash(&home), 1);
    let done = answer(&state, json!({}), yes.clone()).await;
    assert_eq!(done["result"]["structuredContent"]["deleted"], 1, "{done}");
    let again = answer(&state, json!({}), yes).await;
    assert_eq!(again["error"]["data"]["field"], "requestState", "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_withdraws_its_question() {
    let home = Home::new(Model::Absent);
    home.engine
        .delete_note(
            home.engine
                .add_note(pkm_engine::NoteDraft {
                    title: "t".into(),
                    ..pkm_engine::NoteDraft::default()
                })
                .unwrap()
                .id,
            None,
        )
        .unwrap();
    let mut raw = home.raw();
    raw.shake_hands(json!({"elicitation": {}})).await;
    let call = json!({"name": "empty_trash", "arguments": {}});
    raw.send(json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}))
        .await;
    let question = loop {
        let message = raw.receive().await;
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    let schema = &question["params"]["requestedSchema"];
    assert_eq!(schema["properties"]["confirm"]["type"], "boolean");
    assert_eq!(schema["required"], json!(["confirm"]));
    let cancelled = json!({"requestId": 7});
    raw.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}))
        .await;
    let withdrawn = loop {
        let message = raw.receive().await;
        assert_ne!(message["id"], 7, "a cancelled call is not answered");
        if message["method"] == "notifications/cancelled" {
            break message;
        }
    };
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    assert_eq!(in_trash(&home), 1);
}
