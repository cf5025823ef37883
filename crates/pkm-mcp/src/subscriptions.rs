//! What a client wants to hear of by itself, and telling it so, in both eras.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use pkm_engine::Changes;
use rmcp::{
    Peer, RoleServer,
    model::{ResourceUpdatedNotificationParam, SubscriptionFilter},
    service::SubscriptionSink,
};
use tokio::{
    sync::{broadcast::error::RecvError, watch},
    task::JoinHandle,
    time::{self, Instant},
};
use tokio_util::sync::CancellationToken;

use crate::{feed::Listener, resources::Address};

/// The least time between two notifications about one thing.
const MIN_GAP: Duration = Duration::from_secs(1);
/// How long a client may leave a notification unread before it is told nothing more.
const MAX_SEND: Duration = Duration::from_secs(5);
/// Resources that one client may watch.
pub(crate) const MAX_RESOURCES: usize = 1_000;

/// Something that a client can hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Topic {
    /// The list of resources reads otherwise.
    List,
    Resource(Address),
}

/// What one client wants to hear of.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) list: bool,
    /// Each with the uri as the client wrote it.
    pub(crate) resources: BTreeMap<Address, String>,
}

impl Wanted {
    /// What is wanted of what can come: tools, prompts and templates change with the program only.
    pub(crate) fn of(filter: &SubscriptionFilter) -> Self {
        let uris = filter.resource_subscriptions.iter().flatten();
        Self {
            list: filter.resources_list_changed == Some(true),
            resources: uris
                .filter_map(|uri| Some((Address::parse(uri)?, uri.clone())))
                .take(MAX_RESOURCES)
                .collect(),
        }
    }

    /// The same as a client is told that it will hear.
    pub(crate) fn into_filter(self) -> SubscriptionFilter {
        let mut filter = SubscriptionFilter::new();
        filter.resources_list_changed = self.list.then_some(true);
        if !self.resources.is_empty() {
            filter.resource_subscriptions = Some(self.resources.into_values().collect());
        }
        filter
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.list && self.resources.is_empty()
    }

    fn is_wanted(&self, topic: Topic) -> bool {
        match topic {
            Topic::List => self.list,
            Topic::Resource(address) => self.resources.contains_key(&address),
        }
    }

    /// What of it is touched by changes; all of it where they are not known.
    fn touched_by(&self, changes: Option<&Changes>) -> Vec<Topic> {
        let is_touched = |address: &Address| match (changes, address) {
            (None, _) => true,
            // Counts, sizes and jobs: nearly every commit changes the status.
            (Some(_), Address::Status) => true,
            (Some(changes), Address::Note(id)) => changes.is_cut || changes.notes.contains(id),
            (Some(changes), Address::Job(id)) => changes.jobs.contains(id),
        };
        let resources = self.resources.keys().filter(|address| is_touched(address));
        let list = self.list && changes.is_none_or(|changes| changes.relisted);
        list.then_some(Topic::List)
            .into_iter()
            .chain(resources.map(|address| Topic::Resource(*address)))
            .collect()
    }
}

/// Where notifications go: to a session, or into the stream of one `subscriptions/listen`.
pub(crate) enum Outlet {
    Session(Peer<RoleServer>),
    Stream(SubscriptionSink),
}

impl Outlet {
    /// Whether the client took it.
    async fn updated(&self, uri: String) -> bool {
        match self {
            Self::Session(peer) => {
                let update = ResourceUpdatedNotificationParam::new(uri);
                peer.notify_resource_updated(update).await.is_ok()
            }
            Self::Stream(sink) => sink.notify_resource_updated(uri).await.is_ok(),
        }
    }

    async fn list_changed(&self) -> bool {
        match self {
            Self::Session(peer) => peer.notify_resource_list_changed().await.is_ok(),
            Self::Stream(sink) => sink.notify_resource_list_changed().await.is_ok(),
        }
    }
}

/// Tells a client what it wants to hear, at most once a second about each thing and never too
/// little: the last change always leads to a notification. Ends when the client no longer reads,
/// or `stop` says so.
pub(crate) async fn deliver(
    outlet: Outlet,
    wanted: watch::Receiver<Wanted>,
    mut listener: Listener,
    stop: CancellationToken,
) {
    let mut due: BTreeMap<Topic, Instant> = BTreeMap::new();
    let mut told: HashMap<Topic, Instant> = HashMap::new();
    loop {
        let next = due.values().min().copied();
        let wake = async {
            match next {
                Some(at) => time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let touched = tokio::select! {
            () = stop.cancelled() => return,
            () = wake => Vec::new(),
            heard = listener.recv() => match heard {
                Ok(changes) => wanted.borrow().touched_by(Some(&changes)),
                Err(RecvError::Lagged(_)) => wanted.borrow().touched_by(None),
                Err(RecvError::Closed) => return,
            },
        };
        let now = Instant::now();
        told.retain(|_, at| now - *at < MIN_GAP);
        for topic in touched {
            let at = told.get(&topic).map_or(now, |at| *at + MIN_GAP);
            due.entry(topic).or_insert(at);
        }
        let ripe: Vec<Topic> = due
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(topic, _)| *topic)
            .collect();
        for topic in ripe {
            due.remove(&topic);
            if !wanted.borrow().is_wanted(topic) {
                continue;
            }
            told.insert(topic, now);
            let sent = match topic {
                Topic::List => time::timeout(MAX_SEND, outlet.list_changed()).await,
                Topic::Resource(address) => {
                    let uri = wanted.borrow().resources.get(&address).cloned();
                    let uri = uri.unwrap_or_else(|| address.to_string());
                    time::timeout(MAX_SEND, outlet.updated(uri)).await
                }
            };
            if sent != Ok(true) {
                tracing::debug!("a client no longer reads what it subscribed to");
                return;
            }
        }
    }
}

/// The subscriptions of one session that has a handshake.
pub(crate) struct Session {
    wanted: watch::Sender<Wanted>,
    /// Listens since the handshake, until the client is ready to hear.
    listener: Mutex<Option<Listener>>,
    delivery: Mutex<Option<JoinHandle<()>>>,
}

impl Session {
    pub(crate) fn new() -> Self {
        let wanted = Wanted {
            list: true,
            resources: BTreeMap::new(),
        };
        Self {
            wanted: watch::Sender::new(wanted),
            listener: Mutex::default(),
            delivery: Mutex::default(),
        }
    }

    /// Keeps a listener for [`Session::start`].
    pub(crate) fn prepare(&self, listener: Listener) {
        *lock(&self.listener) = Some(listener);
    }

    /// Begins to tell the client, once.
    pub(crate) fn start(&self, peer: Peer<RoleServer>, stop: CancellationToken) {
        if let Some(listener) = lock(&self.listener).take() {
            let outlet = Outlet::Session(peer);
            let delivery = deliver(outlet, self.wanted.subscribe(), listener, stop);
            if let Some(former) = lock(&self.delivery).replace(tokio::spawn(delivery)) {
                former.abort();
            }
        }
    }

    /// Whether there is room for one more.
    pub(crate) fn subscribe(&self, address: Address, uri: String) -> bool {
        let mut has_room = true;
        self.wanted.send_modify(|wanted| {
            has_room =
                wanted.resources.len() < MAX_RESOURCES || wanted.resources.contains_key(&address);
            if has_room {
                wanted.resources.insert(address, uri);
            }
        });
        has_room
    }

    pub(crate) fn unsubscribe(&self, address: Address) {
        self.wanted.send_modify(|wanted| {
            wanted.resources.remove(&address);
        });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(delivery) = lock(&self.delivery).take() {
            delivery.abort();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
