//! From a listening socket to the routes: who may hold a connection, and for how long.
//!
//! Anybody may connect, and nothing is known about a connection before its first request is whole. So a connection is only
//! ever lent: one that does not send the head of its next request in time is closed, and when there are too many, each new
//! one takes the place of the one that has gone without an answer for the longest. GitHub and the panel get through
//! whatever others hold open.

use axum::{Router, body::Body, extract::ConnectInfo};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, getrlimit};
use std::{
    collections::HashMap,
    io::ErrorKind,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Connections at once, where the process may open files enough.
const MOST_CONNECTIONS: u64 = 512;
/// After the system refused a connection, most likely for want of descriptors, the next one is asked for this much later.
const AFTER_A_REFUSAL: Duration = Duration::from_millis(10);
/// Crowding is told of once in this time at most.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// How much of this process strangers may hold.
#[derive(Clone, Copy, Debug)]
pub struct ServeLimits {
    /// For the head of a request, from the opening of the connection or the last answer on it; so also for being idle.
    pub head: Duration,
    /// Connections at once.
    pub connections: usize,
    /// After the listener is closed, for what is being answered.
    pub farewell: Duration,
}

impl ServeLimits {
    /// At most half of the descriptors this process may open go to connections: the database and git need theirs.
    pub fn of_this_process() -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let connections = MOST_CONNECTIONS.min(descriptors / 2).max(1);
        Self {
            head: Duration::from_secs(10),
            connections: usize::try_from(connections).unwrap_or(usize::MAX),
            farewell: Duration::from_secs(10),
        }
    }
}

/// Answers until `close`, then closes the listener and lets what was asked before be answered. Every request carries the
/// address it came from as [`ConnectInfo`].
pub async fn serve(listener: TcpListener, routes: Router, limits: ServeLimits, close: CancellationToken) {
    let room = Arc::new(Room::of(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let place = Room::enter(&room);
                    connections.spawn(converse(stream, peer, routes.clone(), limits.head, place, close.clone()));
                }
                Err(error) if is_of_the_connection(error.kind()) => {}
                Err(error) => {
                    room.crowd().make_room(&error);
                    sleep(AFTER_A_REFUSAL).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = close.cancelled() => break,
        }
    }
    drop(listener);
    let farewell = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.farewell, farewell).await.is_err() {
        tracing::info!("connections that did not end were closed");
    }
}

/// The client was gone before it was accepted; the next one may be fine.
fn is_of_the_connection(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset)
}

/// Answers one request after the other, until either side has enough.
async fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    routes: Router,
    head: Duration,
    place: Place,
    close: CancellationToken,
) {
    // Answers are small and whole: waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let (taken, place) = (place.taken.clone(), Arc::new(place));
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        let (routes, place) = (routes.clone(), place.clone());
        async move {
            let answer = routes.oneshot(request.map(Body::new)).await;
            place.answered();
            answer
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    let mut closing = false;
    loop {
        tokio::select! {
            // Why a stranger's connection ended is nobody's concern here.
            _ = connection.as_mut() => return,
            () = taken.cancelled() => return,
            () = close.cancelled(), if !closing => {
                closing = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Who is connected.
struct Room {
    limit: usize,
    crowd: Mutex<Crowd>,
}

#[derive(Default)]
struct Crowd {
    last: u64,
    guests: HashMap<u64, Guest>,
    told: Option<Instant>,
}

struct Guest {
    /// The last answer, or the arrival.
    since: Instant,
    taken: CancellationToken,
}

/// A connection's place, given back when dropped.
struct Place {
    room: Arc<Room>,
    id: u64,
    /// Somebody else has this place now.
    taken: CancellationToken,
}

impl Room {
    fn of(limit: usize) -> Self {
        Self { limit, crowd: Mutex::default() }
    }

    fn crowd(&self) -> MutexGuard<'_, Crowd> {
        self.crowd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is always a place for the next one.
    fn enter(room: &Arc<Self>) -> Place {
        let mut crowd = room.crowd();
        if crowd.guests.len() >= room.limit {
            crowd.make_room(&format_args!("{} are open", room.limit));
        }
        crowd.last += 1;
        let (id, taken) = (crowd.last, CancellationToken::new());
        crowd.guests.insert(id, Guest { since: Instant::now(), taken: taken.clone() });
        Place { room: room.clone(), id, taken }
    }
}

impl Crowd {
    /// An honest client is answered within moments of connecting, so that whoever has gone without an answer for the
    /// longest is the least likely to be one.
    fn make_room(&mut self, why: &dyn std::fmt::Display) {
        let longest = self.guests.iter().min_by_key(|(id, guest)| (guest.since, **id)).map(|(id, _)| *id);
        if let Some(guest) = longest.and_then(|id| self.guests.remove(&id)) {
            guest.taken.cancel();
        }
        if self.told.is_none_or(|told| told.elapsed() >= TELL_AGAIN) {
            self.told = Some(Instant::now());
            tracing::warn!(reason = %why, "too many connections: those that went longest without an answer are closed for new ones");
        }
    }
}

impl Place {
    fn answered(&self) {
        if let Some(guest) = self.room.crowd().guests.get_mut(&self.id) {
            guest.since = Instant::now();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.crowd().guests.remove(&self.id);
    }
}
