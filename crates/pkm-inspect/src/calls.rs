//! Which request an answer belongs to.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

use jiff::Timestamp;

use crate::finding::Finding;
use crate::message::Id;
use crate::names::Direction;

/// How many requests without an answer, and how many answered ids, are remembered on a channel.
const MAX_REMEMBERED: usize = 1 << 16;

/// The last so many of something.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    known: HashSet<T>,
    order: VecDeque<T>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self {
            known: HashSet::new(),
            order: VecDeque::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Recent<T> {
    pub(crate) fn insert(&mut self, item: T) {
        if self.known.insert(item.clone()) {
            self.order.push_back(item);
        }
        if self.order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(crate) fn contains(&self, item: &T) -> bool {
        self.known.contains(item)
    }

    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.order.clear();
    }
}

/// A request that waits for its answer.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) line: u64,
    pub(crate) at: Option<Timestamp>,
    /// What it is, in a line.
    pub(crate) what: String,
    pub(crate) method: String,
    /// The tool or prompt that was asked for.
    pub(crate) name: Option<String>,
    pub(crate) token: Option<Id>,
    /// It speaks a revision without handshake.
    pub(crate) is_modern: bool,
    /// It asks for the first page of a list.
    pub(crate) is_first_page: bool,
    pub(crate) is_cancelled: bool,
    /// How many further requests came with its id while it waited.
    pub(crate) n_repeats: usize,
}

impl Call {
    /// A subscription is answered when it ends, which it need not.
    fn may_stay_open(&self) -> bool {
        self.method == "subscriptions/listen"
    }
}

/// Whose answer an answer is.
#[derive(Debug)]
pub(crate) enum Asked {
    /// This request's.
    Call(Box<Call>),
    /// This request's, but the id came back in another type.
    OtherType(Box<Call>, Id),
    /// That of a request which was answered before.
    Before,
    /// Nobody's.
    Nobody,
    /// Unknown: too many requests wait to remember them all.
    Unknown,
}

/// The requests of both sides.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    in_flight: HashMap<(Direction, Id), Call>,
    answered: Recent<(Direction, Id)>,
    has_forgotten: bool,
}

impl Calls {
    /// Takes a request that goes this way.
    pub(crate) fn ask(
        &mut self,
        direction: Direction,
        id: Id,
        call: Call,
        findings: &mut Vec<Finding>,
    ) {
        let key = (direction, id);
        if let Some(first) = self.in_flight.get_mut(&key) {
            first.n_repeats += 1;
            findings.push(
                Finding::error(
                    "id_in_flight",
                    format!("id {} waits for an answer since line {}", key.1, first.line),
                )
                .at("id")
                .hint("every request of a session needs an id of its own"),
            );
            return;
        }
        if self.answered.contains(&key) {
            findings.push(
                Finding::warning("id_reused", format!("id {} was used before", key.1))
                    .at("id")
                    .hint("every request of a session needs an id of its own"),
            );
        }
        if self.in_flight.len() >= MAX_REMEMBERED {
            self.has_forgotten = true;
            return;
        }
        self.in_flight.insert(key, call);
    }

    /// Takes the answer to a request that went this way. `is_refusal`: it says that the request was
    /// no valid one.
    pub(crate) fn answer(&mut self, direction: Direction, id: &Id, is_refusal: bool) -> Asked {
        if let Some(call) = self.take(direction, id, is_refusal) {
            return Asked::Call(Box::new(call));
        }
        if self.answered.contains(&(direction, id.clone())) {
            return Asked::Before;
        }
        if let Some(other) = id.in_other_type()
            && let Some(call) = self.take(direction, &other, is_refusal)
        {
            return Asked::OtherType(Box::new(call), other);
        }
        if self.has_forgotten {
            return Asked::Unknown;
        }
        Asked::Nobody
    }

    fn take(&mut self, direction: Direction, id: &Id, is_refusal: bool) -> Option<Call> {
        let key = (direction, id.clone());
        let call = self.in_flight.get_mut(&key)?;
        if call.n_repeats > 0 {
            call.n_repeats -= 1;
            let taken = call.clone();
            // The repeat is what was refused; its first use still waits. Otherwise the repeat waits.
            call.is_cancelled &= is_refusal;
            return Some(taken);
        }
        let call = self.in_flight.remove(&key);
        self.answered.insert(key);
        call
    }

    pub(crate) fn get(&self, direction: Direction, id: &Id) -> Option<&Call> {
        self.in_flight.get(&(direction, id.clone()))
    }

    pub(crate) fn was_answered(&self, direction: Direction, id: &Id) -> bool {
        self.answered.contains(&(direction, id.clone()))
    }

    /// Takes a `notifications/cancelled` of the side that asked.
    pub(crate) fn cancel(&mut self, direction: Direction, id: &Id, findings: &mut Vec<Finding>) {
        let field = "params.requestId";
        if let Some(call) = self.in_flight.get_mut(&(direction, id.clone())) {
            call.is_cancelled = true;
            if call.method == "initialize" {
                findings.push(
                    Finding::error("cancel_initialize", "`initialize` must not be cancelled")
                        .at(field),
                );
            }
            return;
        }
        let is_asked = |id: &Id| self.get(direction, id).is_some();
        if let Some(other) = id.in_other_type().filter(is_asked) {
            findings.push(
                Finding::error("id_type_changed", format!("{id} was asked as {other}"))
                    .at(field)
                    .hint("an id keeps its type"),
            );
            self.cancel(direction, &other, findings);
        } else if !self.was_answered(direction, id) && !self.has_forgotten {
            // A cancellation that crosses the answer is nobody's mistake, one of nothing is.
            findings.push(
                Finding::warning("cancel_unknown", format!("no request {id} was asked")).at(field),
            );
        }
    }

    /// A new session begins: its ids may be those of the former one.
    pub(crate) fn forget_answered(&mut self) {
        self.answered.clear();
    }

    /// The requests that should have been answered, in order.
    pub(crate) fn unanswered(&self) -> Vec<(Direction, &Id, &Call)> {
        let mut open: Vec<_> = self
            .in_flight
            .iter()
            .filter(|(_, call)| !call.is_cancelled && !call.may_stay_open())
            .map(|((direction, id), call)| (*direction, id, call))
            .collect();
        open.sort_by(|(_, a_id, a), (_, b_id, b)| (a.line, a_id).cmp(&(b.line, b_id)));
        open
    }
}
