//! For tests: an HTTP/1.1 server on loopback that answers from a script and keeps what it was sent, byte for byte.
//!
//! It writes the wire format itself, so that it can do what a proper server never does: stop in mid-body, stall, reset.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Counts connections from 0.
    pub(crate) connection: usize,
    /// Request line and headers, lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// How a request is answered: bytes, then what happens to the connection.
pub(crate) struct Answer {
    bytes: Vec<u8>,
    then: Then,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Then {
    /// Wait for the next request.
    Keep,
    /// Close.
    Close,
    /// Say nothing more and wait until the client closes.
    Stall,
}

impl Answer {
    /// A chunked event stream that ends in order.
    pub(crate) fn sse(body: &str) -> Self {
        let bytes = format!("{SSE_HEAD}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        Self { bytes: bytes.into_bytes(), then: Then::Keep }
    }

    /// A chunked event stream whose end never comes.
    pub(crate) fn open_sse(body: &str, then: Then) -> Self {
        Self { bytes: format!("{SSE_HEAD}{:x}\r\n{body}\r\n", body.len()).into_bytes(), then }
    }

    /// Any status, with further headers, each ended by CRLF.
    pub(crate) fn status(status: &str, headers: &str, body: &str) -> Self {
        let bytes = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
        Self { bytes: bytes.into_bytes(), then: Then::Keep }
    }
}

const SSE_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

pub(crate) struct ScriptedServer {
    pub(crate) base_url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Says the number of a connection that the client closed while it was stalled.
    pub(crate) closed: mpsc::UnboundedReceiver<usize>,
    task: JoinHandle<()>,
}

impl ScriptedServer {
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let script = Arc::new(Mutex::new(answers.into_iter().collect::<VecDeque<_>>()));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (closing, closed) = mpsc::unbounded_channel();
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let (script, seen, closing) = (Arc::clone(&script), Arc::clone(&shared), closing.clone());
                connections.spawn(async move {
                    if serve(stream, connection, &script, &seen).await == Then::Stall {
                        let _ = closing.send(connection);
                    }
                });
            }
        });
        Self { base_url, seen, closed, task }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    connection: usize,
    script: &Mutex<VecDeque<Answer>>,
    seen: &Mutex<Vec<Seen>>,
) -> Then {
    loop {
        let Some((head, body)) = read_request(&mut stream).await else { return Then::Close };
        seen.lock().unwrap().push(Seen { connection, head, body });
        let Some(answer) = script.lock().unwrap().pop_front() else { return Then::Close };
        stream.write_all(&answer.bytes).await.unwrap();
        match answer.then {
            Then::Keep => {}
            Then::Close => return Then::Close,
            Then::Stall => {
                let mut rest = Vec::new();
                let _ = stream.read_to_end(&mut rest).await;
                return Then::Stall;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    while bytes.len() < head_end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some((head, String::from_utf8_lossy(&bytes[head_end..]).into_owned()))
}
