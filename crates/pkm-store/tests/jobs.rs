//! Jobs: one live one of a kind, seen by everybody, taken up again after a death.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Scene, at};
use pkm_store::{Error, JobStart, JobState, JobUpdate, NewJob};

const REINDEX: NewJob<'_> = NewJob {
    kind: "reindex",
    scope: "all",
    fingerprint: "f",
};

fn report(state: JobState, done: u64) -> JobUpdate {
    JobUpdate {
        state,
        done,
        total: 10,
        message: format!("{done} of 10"),
        error: None,
    }
}

#[test]
fn a_second_request_finds_the_live_job() {
    let scene = Scene::new();
    let (first, start) = scene.store.create_job(REINDEX, at(1)).unwrap();
    assert_eq!((start, first.state), (JobStart::Started, JobState::Queued));
    let (second, start) = scene.store.create_job(REINDEX, at(2)).unwrap();
    assert_eq!((start, second.id), (JobStart::AlreadyRunning, first.id));
    let other = NewJob {
        scope: "pending",
        ..REINDEX
    };
    assert_eq!(
        scene.store.create_job(other, at(2)).unwrap().1,
        JobStart::Started
    );
    scene
        .store
        .update_job(first.id, &report(JobState::Done, 10), at(3))
        .unwrap();
    assert_eq!(
        scene.store.create_job(REINDEX, at(4)).unwrap().1,
        JobStart::Started
    );
}

#[test]
fn a_worker_takes_the_oldest_job_and_the_one_a_dead_worker_left() {
    let scene = Scene::new();
    assert_eq!(scene.store.next_job("f", at(0)).unwrap(), None);
    let (job, _) = scene.store.create_job(REINDEX, at(1)).unwrap();
    assert_eq!(scene.store.next_job("other model", at(2)).unwrap(), None);
    let taken = scene.store.next_job("f", at(2)).unwrap().unwrap();
    assert_eq!(
        (taken.id, taken.state, taken.started_at),
        (job.id, JobState::Running, Some(at(2)))
    );
    scene
        .store
        .update_job(job.id, &report(JobState::Running, 4), at(3))
        .unwrap();
    let again = scene.store.next_job("f", at(9)).unwrap().unwrap();
    assert_eq!(
        (again.id, again.done, again.started_at),
        (job.id, 4, Some(at(2)))
    );
    assert_eq!(again.heartbeat_at, Some(at(9)));
}

#[test]
fn a_running_job_is_asked_to_stop_and_a_queued_one_stops_at_once() {
    let scene = Scene::new();
    let (job, _) = scene.store.create_job(REINDEX, at(1)).unwrap();
    scene.store.next_job("f", at(2)).unwrap();
    let asked = scene.store.request_cancel(job.id, at(3)).unwrap();
    assert_eq!(
        (asked.state, asked.cancel_requested),
        (JobState::Running, true)
    );
    let seen = scene
        .store
        .update_job(job.id, &report(JobState::Running, 5), at(4))
        .unwrap();
    assert!(seen.cancel_requested);
    let ended = scene
        .store
        .update_job(job.id, &report(JobState::Cancelled, 5), at(5))
        .unwrap();
    assert_eq!(
        (ended.state, ended.finished_at),
        (JobState::Cancelled, Some(at(5)))
    );

    let (queued, _) = scene.store.create_job(REINDEX, at(6)).unwrap();
    let cancelled = scene.store.request_cancel(queued.id, at(7)).unwrap();
    assert_eq!(
        (cancelled.state, cancelled.finished_at),
        (JobState::Cancelled, Some(at(7)))
    );
    assert_eq!(scene.store.next_job("f", at(8)).unwrap(), None);
}

#[test]
fn a_job_that_has_ended_stays_as_it_is() {
    let scene = Scene::new();
    let (job, _) = scene.store.create_job(REINDEX, at(1)).unwrap();
    let failed = JobUpdate {
        error: Some("no model".to_owned()),
        ..report(JobState::Failed, 3)
    };
    let ended = scene.store.update_job(job.id, &failed, at(2)).unwrap();
    assert_eq!(ended.error.as_deref(), Some("no model"));
    assert_eq!(
        scene
            .store
            .update_job(job.id, &report(JobState::Running, 9), at(3))
            .unwrap(),
        ended
    );
    assert_eq!(scene.store.request_cancel(job.id, at(3)).unwrap(), ended);
    assert_eq!(scene.store.job(job.id).unwrap(), ended);
}

#[test]
fn jobs_are_listed_newest_first_and_unknown_ones_named() {
    let scene = Scene::new();
    for scope in ["a", "b", "c"] {
        scene
            .store
            .create_job(NewJob { scope, ..REINDEX }, at(1))
            .unwrap();
    }
    let scopes: Vec<String> = scene
        .store
        .list_jobs(2)
        .unwrap()
        .into_iter()
        .map(|job| job.scope)
        .collect();
    assert_eq!(scopes, ["c", "b"]);
    assert!(matches!(
        scene.store.job(77),
        Err(Error::NoSuchJob { id: 77 })
    ));
}
