//! Progress of a job on its way to the client that waits for it.
//!
//! The wait for the job must never wait for the client: the newest state goes into a `watch`
//! channel, and a forwarder of its own sends what is there, at most four times a second.

use std::time::Duration;

use pkm_engine::{Job, JobState};
use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
};
use tokio::{sync::watch, task::JoinHandle, time};

/// The least time between two notifications.
const MIN_GAP: Duration = Duration::from_millis(250);
/// The longest silence.
const MAX_SILENCE: Duration = Duration::from_secs(4);
/// How long the answer is held back for the last notification of a slow client.
const LAST_SEND: Duration = Duration::from_millis(500);
/// Time between the last notification and the answer: npm's client forgets who listens as soon as
/// it reads the answer, and so loses a notification that comes with the same read.
const LAST_GAP: Duration = Duration::from_millis(20);

/// How far a job is, as the client is told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Progress {
    done: usize,
    total: usize,
    finished: bool,
    message: String,
}

impl Progress {
    /// Before the job is known.
    pub(crate) fn starting() -> Self {
        Self {
            done: 0,
            total: 0,
            finished: false,
            message: "starting".into(),
        }
    }

    pub(crate) fn of(job: &Job) -> Self {
        let finished = match job.state {
            JobState::Queued | JobState::Running => false,
            JobState::Done | JobState::Failed | JobState::Cancelled => true,
        };
        let message = if job.message.is_empty() {
            job.kind.clone()
        } else {
            job.message.clone()
        };
        Self {
            done: job.done,
            total: job.total,
            finished,
            message,
        }
    }
}

/// Whether the client was told anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    Something,
}

/// Sends what comes through the channel until it closes.
#[derive(Debug)]
pub(crate) struct Forwarder(JoinHandle<Told>);

impl Forwarder {
    /// Starts to forward; the channel's first state is `None` until the job is known.
    pub(crate) fn start(
        peer: Peer<RoleServer>,
        token: ProgressToken,
        states: watch::Receiver<Option<Progress>>,
    ) -> Self {
        Self(tokio::spawn(forward(states, move |step: Step| {
            let peer = peer.clone();
            let notification = ProgressNotificationParam::new(token.clone(), step.value)
                .with_total(step.total)
                .with_message(step.message);
            async move { peer.notify_progress(notification).await.is_ok() }
        })))
    }

    /// Waits until the last state is sent, but not for ever: after the answer nothing may follow.
    pub(crate) async fn finish(mut self) {
        match time::timeout(LAST_SEND, &mut self.0).await {
            Ok(Ok(Told::Something)) => time::sleep(LAST_GAP).await,
            Ok(_) => {}
            Err(_) => self.0.abort(),
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What one notification says.
#[derive(Debug)]
struct Step {
    value: f64,
    total: f64,
    message: String,
}

/// Hands the newest state to `send` until the job is over, the channel closes, or `send` says that
/// nobody listens any more.
async fn forward<F>(mut states: watch::Receiver<Option<Progress>>, send: impl Fn(Step) -> F) -> Told
where
    F: Future<Output = bool>,
{
    let mut meter = Meter::default();
    let mut told = Told::Nothing;
    loop {
        // An error means that the sender is gone; a silence is broken with the same state again.
        let open = !matches!(
            time::timeout(MAX_SILENCE, states.changed()).await,
            Ok(Err(_))
        );
        let state = states.borrow_and_update().clone();
        if let Some(state) = state
            && let Some(value) = meter.next(&state)
        {
            let step = Step {
                value,
                total: total(&state),
                message: state.message,
            };
            let listens = send(step).await;
            told = Told::Something;
            if !listens || state.finished {
                return told;
            }
        }
        if !open {
            return told;
        }
        time::sleep(MIN_GAP).await;
    }
}

fn total(state: &Progress) -> f64 {
    as_f64(state.total.max(1))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of chunks stay far below 2^53"
)]
fn as_f64(n: usize) -> f64 {
    n as f64
}

/// Values that strictly increase, as the protocol demands, even where the job stands still.
#[derive(Debug, Default)]
struct Meter {
    last: Option<f64>,
}

impl Meter {
    /// The value to send for `state`, or `None` where none is left below the total.
    fn next(&mut self, state: &Progress) -> Option<f64> {
        let total = total(state);
        let value = if state.finished {
            total
        } else {
            as_f64(state.done).min(total - 0.5)
        };
        let value = match self.last {
            Some(last) if value <= last => last + ((total - last) / 2.0).min(0.001),
            Some(_) | None => value,
        };
        if self.last.is_some_and(|last| value <= last) {
            return None;
        }
        self.last = Some(value);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::time::Instant;

    use super::*;

    fn state(done: usize, total: usize, finished: bool) -> Progress {
        Progress {
            done,
            total,
            finished,
            message: String::new(),
        }
    }

    #[test]
    fn values_strictly_increase_and_end_at_the_total() {
        let mut meter = Meter::default();
        let mut values = Vec::new();
        let states = [
            state(0, 10, false),
            state(0, 10, false),
            state(4, 10, false),
            state(3, 10, false),
            state(10, 10, false),
            state(10, 10, false),
            state(10, 10, true),
            state(10, 10, true),
        ];
        for state in &states {
            values.extend(meter.next(state));
        }
        assert!(values.is_sorted_by(|a, b| a < b), "{values:?}");
        assert_eq!(values.len(), 7, "the last repeats the end: {values:?}");
        assert_eq!((values[0], values[6]), (0.0, 10.0));
    }

    #[test]
    fn a_job_without_work_ends_at_one_of_one() {
        let mut meter = Meter::default();
        assert_eq!(meter.next(&state(0, 0, false)), Some(0.0));
        assert_eq!(meter.next(&state(0, 0, true)), Some(1.0));
    }

    /// When each step was sent.
    type Sent = Arc<Mutex<Vec<(Instant, f64)>>>;

    fn started(states: watch::Receiver<Option<Progress>>) -> (Forwarder, Sent) {
        let sent = Sent::default();
        let log = Arc::clone(&sent);
        let send = move |step: Step| {
            log.lock().unwrap().push((Instant::now(), step.value));
            std::future::ready(true)
        };
        (Forwarder(tokio::spawn(forward(states, send))), sent)
    }

    fn gaps(sent: &Sent) -> Vec<Duration> {
        sent.lock()
            .unwrap()
            .windows(2)
            .map(|pair| pair[1].0 - pair[0].0)
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_quick_job_is_told_at_once_and_at_most_four_times_a_second() {
        let (states, receiver) = watch::channel(None);
        let (forwarder, sent) = started(receiver);
        let start = Instant::now();
        for done in 0..1_000 {
            states.send_replace(Some(state(done, 1_000, false)));
            time::sleep(Duration::from_millis(3)).await;
        }
        states.send_replace(Some(state(1_000, 1_000, true)));
        drop(states);
        forwarder.finish().await;
        assert_eq!(sent.lock().unwrap()[0].0, start);
        assert_eq!(sent.lock().unwrap().last().unwrap().1, 1_000.0);
        assert!(
            gaps(&sent).iter().all(|gap| *gap >= MIN_GAP),
            "{:?}",
            gaps(&sent)
        );
        assert!(sent.lock().unwrap().len() >= 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_stands_still_is_told_at_least_every_five_seconds() {
        let (states, receiver) = watch::channel(None);
        let (_forwarder, sent) = started(receiver);
        states.send_replace(Some(state(10, 10, false)));
        time::sleep(Duration::from_secs(55)).await;
        assert!(
            gaps(&sent).iter().all(|gap| *gap <= Duration::from_secs(5)),
            "{:?}",
            gaps(&sent)
        );
        let sent = sent.lock().unwrap();
        assert!(
            sent.len() >= 11 && sent.is_sorted_by(|a, b| a.1 < b.1),
            "{sent:?}"
        );
        assert!(sent.iter().all(|(_, value)| *value < 10.0), "{sent:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_holds_up_neither_the_job_nor_the_answer() {
        let (states, receiver) = watch::channel(None);
        let forwarder = Forwarder(tokio::spawn(forward(receiver, |_| std::future::pending())));
        for done in 0..100 {
            states.send_replace(Some(state(done, 100, false)));
            tokio::task::yield_now().await;
        }
        drop(states);
        let start = Instant::now();
        forwarder.finish().await;
        assert!(start.elapsed() <= LAST_SEND + LAST_GAP);
    }
}
