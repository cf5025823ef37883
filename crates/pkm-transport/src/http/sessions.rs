//! Sessions of clients that begin with a handshake.
//!
//! rmcp ends a session after a time without messages, even while it answers a request; here a
//! session ends when it is idle: no request in flight, no stream open, nothing said for a while.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt};
use rmcp::{
    model::{
        ClientJsonRpcMessage, JsonRpcMessage, ProtocolVersion, RequestId, ServerJsonRpcMessage,
        ServerResult,
    },
    transport::{
        common::server_side_http::{ServerSseMessage, SessionId},
        streamable_http_server::session::{
            SessionManager,
            local::{LocalSessionManager, SessionConfig},
        },
    },
};

/// The longest time between two looks for idle sessions.
const MAX_REAPING_GAP: Duration = Duration::from_secs(60);

/// All sessions.
pub(super) struct Sessions {
    rmcp: LocalSessionManager,
    known: Arc<Mutex<HashMap<SessionId, Session>>>,
    max: usize,
    idle: Duration,
}

#[derive(Debug)]
struct Session {
    /// What the handshake agreed on.
    revision: Option<ProtocolVersion>,
    last_used: Instant,
    n_streams: usize,
    in_flight: HashSet<RequestId>,
}

/// No session is idle, and there must not be more.
#[derive(Debug)]
pub(super) struct NoRoom;

impl Sessions {
    pub(super) fn new(max: usize, idle: Duration) -> Self {
        let mut config = SessionConfig::default();
        config.keep_alive = None;
        let mut rmcp = LocalSessionManager::default();
        rmcp.session_config = config;
        Self {
            rmcp,
            known: Arc::default(),
            max,
            idle,
        }
    }

    /// What the handshake of a session agreed on; `None` for a session that is not known.
    pub(super) fn revision(&self, id: &str) -> Option<ProtocolVersion> {
        lock(&self.known).get(id)?.revision.clone()
    }

    /// Notes a request of a known session down, until its call ends or its answer is delivered;
    /// `None` where its id is in use.
    pub(super) fn begin(&self, session: &str, request: &RequestId) -> Option<InFlight> {
        let mut known = lock(&self.known);
        if let Some(session) = known.get_mut(session) {
            session.last_used = Instant::now();
            if !session.in_flight.insert(request.clone()) {
                return None;
            }
        }
        Some(InFlight(Arc::new(Noted {
            known: Arc::clone(&self.known),
            session: session.into(),
            request: request.clone(),
            is_over: AtomicBool::new(false),
        })))
    }

    /// Makes room for one more session.
    pub(super) async fn make_room(&self) -> Result<(), NoRoom> {
        let displaced = {
            let known = lock(&self.known);
            if known.len() < self.max {
                return Ok(());
            }
            known
                .iter()
                .filter(|(_, session)| session.in_flight.is_empty())
                .min_by_key(|(_, session)| (session.n_streams > 0, session.last_used))
                .map(|(id, _)| id.clone())
        };
        let id = displaced.ok_or(NoRoom)?;
        tracing::info!("too many sessions: the one that was idle longest ends");
        self.end(&id).await;
        Ok(())
    }

    /// Ends idle sessions for ever.
    pub(super) async fn reap(self: Arc<Self>) {
        loop {
            tokio::time::sleep((self.idle / 4).min(MAX_REAPING_GAP)).await;
            let idle: Vec<SessionId> = lock(&self.known)
                .iter()
                .filter(|(_, session)| {
                    session.n_streams == 0
                        && session.in_flight.is_empty()
                        && session.last_used.elapsed() >= self.idle
                })
                .map(|(id, _)| id.clone())
                .collect();
            for id in idle {
                self.end(&id).await;
            }
        }
    }

    async fn end(&self, id: &SessionId) {
        if let Err(error) = self.close_session(id).await {
            tracing::debug!(%error, "a session did not end well");
        }
    }

    fn touch(&self, id: &SessionId) {
        if let Some(session) = lock(&self.known).get_mut(id) {
            session.last_used = Instant::now();
        }
    }

    /// Counts a stream as open until it is dropped.
    fn counted<S>(&self, id: &SessionId, stream: S) -> impl Stream<Item = ServerSseMessage> + use<S>
    where
        S: Stream<Item = ServerSseMessage>,
    {
        if let Some(session) = lock(&self.known).get_mut(id) {
            session.n_streams += 1;
        }
        let open = OpenStream {
            known: Arc::clone(&self.known),
            session: id.clone(),
        };
        stream.map(move |event| {
            let _open = &open;
            event
        })
    }
}

impl SessionManager for Sessions {
    type Error = <LocalSessionManager as SessionManager>::Error;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.rmcp.create_session().await?;
        let session = Session {
            revision: None,
            last_used: Instant::now(),
            n_streams: 0,
            in_flight: HashSet::new(),
        };
        lock(&self.known).insert(id.clone(), session);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        let answer = self.rmcp.initialize_session(id, message).await?;
        if let JsonRpcMessage::Response(response) = &answer
            && let ServerResult::InitializeResult(agreed) = &response.result
            && let Some(session) = lock(&self.known).get_mut(id)
        {
            session.revision = Some(agreed.protocol_version.clone());
        }
        Ok(answer)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(lock(&self.known).contains_key(id))
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        lock(&self.known).remove(id);
        self.rmcp.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.touch(id);
        let stream = self.rmcp.create_stream(id, message).await?;
        Ok(self.counted(id, stream))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.touch(id);
        self.rmcp.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.touch(id);
        let stream = self.rmcp.create_standalone_stream(id).await?;
        Ok(self.counted(id, stream))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.touch(id);
        let stream = self.rmcp.resume(id, last_event_id).await?;
        Ok(self.counted(id, stream))
    }
}

/// A request of a session while it is being answered.
#[derive(Clone)]
pub(super) struct InFlight(Arc<Noted>);

struct Noted {
    known: Arc<Mutex<HashMap<SessionId, Session>>>,
    session: SessionId,
    request: RequestId,
    is_over: AtomicBool,
}

impl InFlight {
    /// It is no longer being answered; a second time this does nothing.
    pub(super) fn end(&self) {
        if self.0.is_over.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(session) = lock(&self.0.known).get_mut(&self.0.session) {
            session.in_flight.remove(&self.0.request);
            session.last_used = Instant::now();
        }
    }
}

struct OpenStream {
    known: Arc<Mutex<HashMap<SessionId, Session>>>,
    session: SessionId,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if let Some(session) = lock(&self.known).get_mut(&self.session) {
            session.n_streams -= 1;
            session.last_used = Instant::now();
        }
    }
}

fn lock(known: &Mutex<HashMap<SessionId, Session>>) -> MutexGuard<'_, HashMap<SessionId, Session>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
