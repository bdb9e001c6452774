//! Just enough HTTP/1.1 to be a scripted server.

use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One request as it came over the wire.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// Which connection it came on, from 1.
    pub connection: usize,
}

impl HttpRequest {
    /// The first header of that name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; `Null` if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A piece of a reply's body.
#[derive(Debug, Clone)]
pub enum Piece {
    /// Sent in one write, as one chunk.
    Bytes(Vec<u8>),
    /// A pause.
    Wait(Duration),
    /// The connection is closed in mid-body.
    Cut,
    /// Nothing comes any more, and the connection stays open.
    Stall,
}

/// A scripted reply.
#[derive(Debug, Clone)]
pub struct HttpReply {
    /// The status.
    pub status: u16,
    /// Headers besides those of the framing.
    pub headers: Vec<(String, String)>,
    /// The body. An empty list is an empty body.
    pub pieces: Vec<Piece>,
}

impl HttpReply {
    /// A JSON reply.
    pub fn json(status: u16, body: &str) -> Self {
        Self::of(status, "application/json", body)
    }

    /// A reply of an event stream.
    pub fn events(body: &str) -> Self {
        Self::of(200, "text/event-stream", body)
    }

    /// A reply of that type.
    pub fn of(status: u16, media_type: &str, body: &str) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), media_type.to_owned())],
            pieces: vec![Piece::Bytes(body.as_bytes().to_vec())],
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Splits the body into chunks of at most `max_bytes`, wherever that falls.
    #[must_use]
    pub fn chunked(mut self, max_bytes: usize) -> Self {
        self.pieces = self
            .pieces
            .into_iter()
            .flat_map(|piece| match piece {
                Piece::Bytes(bytes) => {
                    bytes.chunks(max_bytes.max(1)).map(|chunk| Piece::Bytes(chunk.to_vec())).collect()
                }
                Piece::Wait(_) | Piece::Cut | Piece::Stall => vec![piece],
            })
            .collect();
        self
    }

    /// Waits before every piece.
    #[must_use]
    pub fn paced(mut self, pause: Duration) -> Self {
        self.pieces = self.pieces.into_iter().flat_map(|piece| [Piece::Wait(pause), piece]).collect();
        self
    }

    /// Keeps the first `bytes` of the body and goes on with `then`.
    #[must_use]
    pub fn after(mut self, bytes: usize, then: Piece) -> Self {
        let mut left = bytes;
        let mut kept = Vec::new();
        for piece in self.pieces {
            let Piece::Bytes(mut chunk) = piece else {
                kept.push(piece);
                continue;
            };
            chunk.truncate(left);
            left -= chunk.len();
            kept.push(Piece::Bytes(chunk));
            if left == 0 {
                break;
            }
        }
        kept.push(then);
        self.pieces = kept;
        self
    }
}

/// Reads one request; `None` when the client closed the connection.
pub(super) async fn read(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    connection: usize,
) -> io::Result<Option<HttpRequest>> {
    let head_end = loop {
        if let Some(at) = find(buffer, b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(buffer.get(..head_end).unwrap_or_default()).into_owned();
    buffer.drain(..(head_end + 4).min(buffer.len()));
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let method = first.next().unwrap_or_default().to_owned();
    let path = first.next().unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut request = HttpRequest { method, path, headers, body: Vec::new(), connection };
    if request.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        request.body = read_chunks(stream, buffer).await?;
    } else {
        let length = request.header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
        request.body = take(stream, buffer, length).await?;
    }
    Ok(Some(request))
}

async fn read_chunks(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = find(buffer, b"\r\n") {
                break at;
            }
            if stream.read_buf(buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let line = take(stream, buffer, end + 2).await?;
        let size = usize::from_str_radix(String::from_utf8_lossy(&line).trim(), 16)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let mut chunk = take(stream, buffer, size + 2).await?;
        chunk.truncate(size);
        body.extend(chunk);
        if size == 0 {
            return Ok(body);
        }
    }
}

async fn take(stream: &mut TcpStream, buffer: &mut Vec<u8>, length: usize) -> io::Result<Vec<u8>> {
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(buffer.drain(..length).collect())
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Writes one reply; true when the connection may be used again.
pub(super) async fn write(stream: &mut TcpStream, reply: HttpReply) -> io::Result<bool> {
    let mut head = format!("HTTP/1.1 {} Scripted\r\ntransfer-encoding: chunked\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    for piece in reply.pieces {
        match piece {
            Piece::Bytes(bytes) if bytes.is_empty() => {}
            Piece::Bytes(bytes) => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend(bytes);
                chunk.extend(b"\r\n");
                stream.write_all(&chunk).await?;
            }
            Piece::Wait(pause) => tokio::time::sleep(pause).await,
            Piece::Cut => return Ok(false),
            Piece::Stall => {
                // Until the client gives up: reading ends when it closes.
                let mut ignored = [0_u8; 256];
                while stream.read(&mut ignored).await? > 0 {}
                return Ok(false);
            }
        }
    }
    stream.write_all(b"0\r\n\r\n").await?;
    Ok(true)
}
