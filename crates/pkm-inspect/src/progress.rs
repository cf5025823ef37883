//! Progress: a token that somebody gave, rising, and nothing after the answer.

use std::collections::HashMap;

use serde_json::Value;

use crate::calls::Recent;
use crate::finding::Finding;
use crate::message::{Id, Message};
use crate::names::Direction;

const FIELD: &str = "params.progressToken";

/// The progress tokens of both sides, by the way that the request went.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// What was said last, if anything.
    active: HashMap<(Direction, Id), Option<f64>>,
    ended: Recent<(Direction, Id)>,
}

impl Tokens {
    /// Takes the token of a request that goes this way, if it has one.
    pub(crate) fn give(
        &mut self,
        direction: Direction,
        message: &Message<'_>,
        findings: &mut Vec<Finding>,
    ) -> Option<Id> {
        let raw = message.meta()?.get("progressToken")?;
        let field = "params._meta.progressToken";
        let Some(token) = Id::read(raw) else {
            findings.push(
                Finding::error("progress_token_type", "must be a string or an integer").at(field),
            );
            return None;
        };
        let former = self.active.insert((direction, token.clone()), None);
        if former.is_some() {
            findings.push(
                Finding::error(
                    "progress_token_in_use",
                    format!("{token} belongs to another request that is under way"),
                )
                .at(field),
            );
        }
        Some(token)
    }

    /// The request was answered: no progress may come any more.
    pub(crate) fn end(&mut self, direction: Direction, token: &Id) {
        let key = (direction, token.clone());
        if self.active.remove(&key).is_some() {
            self.ended.insert(key);
        }
    }

    /// Which way the request with this token went.
    pub(crate) fn asked(&self, token: &Id) -> Option<Direction> {
        let knows = |direction: &Direction| {
            let key = (*direction, token.clone());
            self.active.contains_key(&key) || self.ended.contains(&key)
        };
        [Direction::ToServer, Direction::ToClient]
            .into_iter()
            .find(knows)
    }

    /// Checks a progress notification about a request that went this way.
    pub(crate) fn report(
        &mut self,
        direction: Direction,
        message: &Message<'_>,
        findings: &mut Vec<Finding>,
    ) {
        let param = |name: &str| message.params.and_then(|params| params.get(name));
        let Some(token) = param("progressToken").and_then(Id::read) else {
            return;
        };
        let key = (direction, token);
        let Some(last) = self.active.get_mut(&key) else {
            findings.push(self.not_active(direction, &key.1));
            return;
        };
        let Some(progress) = param("progress").and_then(Value::as_f64) else {
            return;
        };
        if let Some(last) = *last
            && progress <= last
        {
            findings.push(
                Finding::error(
                    "progress_order",
                    format!("progress is {progress} after {last}; it must rise"),
                )
                .at("params.progress"),
            );
        }
        *last = Some(progress);
    }

    fn not_active(&self, direction: Direction, token: &Id) -> Finding {
        let is_known = |token: &Id| {
            let key = (direction, token.clone());
            self.active.contains_key(&key) || self.ended.contains(&key)
        };
        if self.ended.contains(&(direction, token.clone())) {
            return Finding::error(
                "progress_late",
                format!("the request with token {token} has its answer"),
            )
            .at(FIELD);
        }
        let unknown = Finding::error(
            "progress_token_unknown",
            format!("no request gave the token {token}"),
        )
        .at(FIELD);
        match token.in_other_type().filter(is_known) {
            Some(other) => unknown.hint(format!("it was given as {other}; a token keeps its type")),
            None => unknown,
        }
    }
}
