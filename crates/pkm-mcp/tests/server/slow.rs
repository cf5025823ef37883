//! A reindex of 20,000 passages with a model that takes its time: what each kind of client gets to
//! see meanwhile, and how it ends the work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use pkm_embed::{Embedded, Embedder, HashEmbedder, ModelCard, Role};
use pkm_engine::{Engine, NoteDraft};
use rmcp::model::{
    CallToolResponse, CancelTaskParams, ClientCapabilities, GetTaskParams, ProtocolVersion,
    TaskStatus,
};
use serde_json::{Value, json};

use crate::support::{Home, Raw, call_of};

const N_NOTES: usize = 20;
const N_PARAGRAPHS: usize = 1_000;

/// Sleeps over each batch, and stands still while it is held.
struct Slow {
    inner: HashEmbedder,
    card: ModelCard,
    is_held: AtomicBool,
}

impl Slow {
    fn held() -> Arc<Self> {
        let inner = HashEmbedder::new();
        let card = ModelCard {
            name: "slow".into(),
            fingerprint: "0123456789abcdef0123456789abcdef".into(),
            // So small that each paragraph is a passage.
            window: 17,
            ..inner.card().clone()
        };
        Arc::new(Self {
            inner,
            card,
            is_held: AtomicBool::new(true),
        })
    }

    fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Release);
    }
}

impl Embedder for Slow {
    fn card(&self) -> &ModelCard {
        &self.card
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.split_whitespace().count() + 4
    }

    fn embed(&self, texts: &[&str], role: Role) -> Result<Embedded, pkm_embed::Error> {
        // The engine has texts of its own to learn a model's languages from; those are quick.
        if texts.iter().any(|text| text.contains("paragraph")) {
            thread::sleep(Duration::from_millis(50));
            while self.is_held.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(10));
            }
        }
        self.inner.embed(texts, role)
    }
}

fn fill(engine: &Engine) {
    for note in 0..N_NOTES {
        let paragraphs = (0..N_PARAGRAPHS).map(|paragraph| {
            format!("paragraph {paragraph} of {note} has eight words exactly\n\n")
        });
        let draft = NoteDraft {
            title: "t".into(),
            content: paragraphs.collect(),
            ..NoteDraft::default()
        };
        engine.add_note(draft).unwrap();
    }
}

/// The job that a call of a client without progress is answered with.
async fn job(raw: &mut Raw, id: i64, tool: &str, arguments: Value) -> Value {
    let call = json!({"name": tool, "arguments": arguments});
    let answer = raw.request(id, "tools/call", call).await;
    answer["result"]["structuredContent"].clone()
}

fn is_live(job: &Value) -> bool {
    ["queued", "running"].contains(&job["state"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_reindex_is_seen_and_ended_by_every_kind_of_client() {
    let model = Slow::held();
    let home = Home::filled(Arc::clone(&model) as Arc<dyn Embedder>, fill);
    let status = home.engine.status().unwrap();
    assert_eq!((status.n_chunks, status.n_pending), (20_000, 20_000));

    // Without a progress token: a job when the wait is over, while nothing has moved yet.
    let mut plain = home.raw();
    plain.shake_hands(json!({})).await;
    let first = job(&mut plain, 1, "reindex_notes", json!({"wait_seconds": 1})).await;
    assert!(is_live(&first), "{first}");
    let polled = job(
        &mut plain,
        2,
        "job_status",
        json!({"job_id": first["job_id"]}),
    )
    .await;
    assert!(
        is_live(&polled) && polled["job_id"] == first["job_id"],
        "{polled}"
    );

    // With one: told at once, and again within five seconds although no passage is done.
    let told = home.connect(ProtocolVersion::V_2025_11_25).await;
    let same = told.ask("reindex_notes", json!({"wait_seconds": 6})).await;
    assert_eq!(
        (&same["job_id"], &same["done"]),
        (&first["job_id"], &json!(0))
    );
    let progress = told.client.service().progress.lock().unwrap().clone();
    assert!(progress.len() >= 2, "{progress:?}");
    assert!(
        progress.is_sorted_by(|a, b| a.progress < b.progress),
        "{progress:?}"
    );
    assert!(
        progress
            .iter()
            .all(|step| step.progress < step.total.unwrap()),
        "{progress:?}"
    );

    // With tasks: the same job, followed and cancelled as a task.
    let capabilities = ClientCapabilities::builder().enable_tasks().build();
    let modern = home
        .connect_as(ProtocolVersion::V_2026_07_28, capabilities)
        .await;
    let call = call_of("reindex_notes", json!({"wait_seconds": 55}));
    let CallToolResponse::Task(seed) = modern.client.call_tool_once(call).await.unwrap() else {
        panic!("no task")
    };
    let id = seed.task.task_id;
    assert_eq!(id, format!("job-{}", first["job_id"]));
    model.hold(false);
    let get = async || {
        let task = modern
            .client
            .get_task(GetTaskParams::new(&id))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        task.task.task
    };
    while home
        .engine
        .job(first["job_id"].as_i64().unwrap())
        .unwrap()
        .done
        == 0
    {
        assert_eq!(get().await.status, TaskStatus::Working);
    }
    let message = get().await.status_message.unwrap();
    assert!(message.contains("passages embedded"), "{message}");
    modern
        .client
        .cancel_task(CancelTaskParams::new(&id))
        .await
        .unwrap();
    while get().await.status == TaskStatus::Working {}
    assert_eq!(get().await.status, TaskStatus::Cancelled);
    let over = job(
        &mut plain,
        3,
        "job_status",
        json!({"job_id": first["job_id"]}),
    )
    .await;
    assert_eq!(over["state"], "cancelled");
    // The worker had one batch in hand before there was a job to count it for.
    let (done, total) = (
        over["done"].as_u64().unwrap(),
        over["total"].as_u64().unwrap(),
    );
    assert!(0 < done && done < total && total > 19_000, "{over}");

    // And by polling: another job, cancelled by its number.
    model.hold(true);
    let second = job(&mut plain, 4, "reindex_notes", json!({"wait_seconds": 0})).await;
    assert!(
        is_live(&second) && second["job_id"] != first["job_id"],
        "{second}"
    );
    let cancel = json!({"job_id": second["job_id"], "cancel": true});
    job(&mut plain, 5, "job_status", cancel).await;
    model.hold(false);
    let wait = json!({"job_id": second["job_id"], "wait_seconds": 55});
    let over = job(&mut plain, 6, "job_status", wait).await;
    assert_eq!(over["state"], "cancelled");
}
