//! A model server on loopback whose every byte is scripted: statuses, headers, chunk sizes, delays, cuts and silence.
//!
//! It speaks just enough HTTP/1.1 for a client library: requests with a length or chunks, keep-alive, chunked replies.
//! What the bytes of a chat reply look like is in `sse.rs`.

mod http;
mod sse;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub use http::{HttpReply, HttpRequest, Piece};
pub use sse::SseReply;

use crate::locked;

type Handler = dyn Fn(&HttpRequest) -> HttpReply + Send + Sync;

/// A running server; dropping it closes every connection.
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

struct State {
    handler: Box<Handler>,
    requests: Mutex<Vec<HttpRequest>>,
    connections: AtomicUsize,
}

impl ModelServer {
    /// Answers the requests in order with these replies, then with status 500.
    pub async fn start(replies: impl IntoIterator<Item = HttpReply>) -> io::Result<Self> {
        let replies: Mutex<VecDeque<HttpReply>> = Mutex::new(replies.into_iter().collect());
        Self::start_with(move |_| {
            locked(&replies)
                .pop_front()
                .unwrap_or_else(|| HttpReply::json(500, r#"{"error":{"message":"the script is used up"}}"#))
        })
        .await
    }

    /// Answers each request with what `handler` makes of it.
    pub async fn start_with(
        handler: impl Fn(&HttpRequest) -> HttpReply + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            handler: Box::new(handler),
            requests: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state)));
        Ok(Self { address, state, accepting })
    }

    /// As in `http://127.0.0.1:40123/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Everything that was asked so far.
    pub fn requests(&self) -> Vec<HttpRequest> {
        locked(&self.state.requests).clone()
    }

    /// Connections that were opened so far.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    // Dropped with this task, so that no connection outlives the server.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { return };
                let number = state.connections.fetch_add(1, Ordering::SeqCst) + 1;
                connections.spawn(serve(stream, number, Arc::clone(&state)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(mut stream: TcpStream, connection: usize, state: Arc<State>) {
    // silent: a client that goes away is what many tests do on purpose.
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::new();
    while let Ok(Some(request)) = http::read(&mut stream, &mut buffer, connection).await {
        let reply = (state.handler)(&request);
        locked(&state.requests).push(request);
        if !matches!(http::write(&mut stream, reply).await, Ok(true)) {
            return;
        }
    }
}
