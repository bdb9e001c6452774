//! A scripted model server for benches: OpenAI chat completions over plain threads, with its own clock.
//!
//! It answers the first `calls` requests with one `read_file` call each and the next with a final text. Nothing is parsed
//! while the clock runs: the replies are encoded before listening, a request is read to its `Content-Length` and dropped.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// What to play.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    /// Replies that call the tool.
    pub(crate) calls: usize,
    /// Words of the final text, one stream event each.
    pub(crate) final_words: usize,
}

/// One request as the server saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    /// First byte of the request.
    pub(crate) first_byte: Instant,
    /// The moment before the last byte of the reply was handed to the kernel.
    pub(crate) reply_end: Instant,
    /// Which connection it came on, from 1.
    pub(crate) connection: usize,
    /// Size of the request's body.
    pub(crate) body_bytes: usize,
}

/// A listening server.
pub(crate) struct Server {
    pub(crate) base_url: String,
    exchanges: Receiver<Exchange>,
}

impl Server {
    pub(crate) fn start(script: Script) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let base_url = format!("http://{}/v1", listener.local_addr()?);
        let (sender, exchanges) = channel();
        let replies: Arc<[Vec<u8>]> = (0..script.calls)
            .map(call_reply)
            .chain(std::iter::once(text_reply(script.final_words)))
            .collect();
        std::thread::spawn(move || serve(&listener, &replies, &sender));
        Ok(Self { base_url, exchanges })
    }

    /// Everything seen so far.
    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.try_iter().collect()
    }
}

fn serve(listener: &TcpListener, replies: &Arc<[Vec<u8>]>, sender: &Sender<Exchange>) {
    let step = Arc::new(AtomicUsize::new(0));
    for (at, stream) in listener.incoming().enumerate() {
        let Ok(stream) = stream else { continue };
        let (replies, step, sender) = (replies.clone(), step.clone(), sender.clone());
        std::thread::spawn(move || answer(stream, at + 1, &replies, &step, &sender));
    }
}

fn answer(
    mut stream: TcpStream,
    connection: usize,
    replies: &[Vec<u8>],
    step: &AtomicUsize,
    sender: &Sender<Exchange>,
) {
    let _ = stream.set_nodelay(true);
    let mut buffer = vec![0_u8; 1 << 20];
    loop {
        let Ok(mut filled) = stream.read(&mut buffer) else { return };
        let first_byte = Instant::now();
        if filled == 0 {
            return;
        }
        let head_end = loop {
            if let Some(at) = find(&buffer[..filled], b"\r\n\r\n") {
                break at + 4;
            }
            match stream.read(&mut buffer[filled..]) {
                Ok(n) if n > 0 => filled += n,
                _ => return,
            }
        };
        let head = String::from_utf8_lossy(&buffer[..head_end]).to_ascii_lowercase();
        let length: usize = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"))
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or(0);
        let mut missing = (head_end + length).saturating_sub(filled);
        while missing > 0 {
            let want = missing.min(buffer.len());
            match stream.read(&mut buffer[..want]) {
                Ok(n) if n > 0 => missing -= n,
                _ => return,
            }
        }
        if !head.starts_with("post") {
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
            continue;
        }
        let reply = &replies[step.fetch_add(1, Ordering::Relaxed).min(replies.len() - 1)];
        let reply_end = Instant::now();
        if stream.write_all(reply).is_err() {
            return;
        }
        let _ = sender.send(Exchange { first_byte, reply_end, connection, body_bytes: length });
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn stream_of(events: &[String]) -> Vec<u8> {
    let mut out =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for event in events {
        let data = format!("data: {event}\n\n");
        out.extend_from_slice(format!("{:x}\r\n{data}\r\n", data.len()).as_bytes());
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

fn chunk(delta: &str, finish: &str) -> String {
    format!(
        r#"{{"id":"c","object":"chat.completion.chunk","created":1700000000,"model":"fake","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}"#
    )
}

fn usage(output: usize) -> String {
    format!(
        r#"{{"id":"c","object":"chat.completion.chunk","created":1700000000,"model":"fake","choices":[],"usage":{{"prompt_tokens":1000,"completion_tokens":{output},"total_tokens":{}}}}}"#,
        1000 + output
    )
}

fn call_reply(step: usize) -> Vec<u8> {
    let mut events = vec![chunk(r#"{"role":"assistant","content":""}"#, "null")];
    for word in 0..20 {
        events.push(chunk(&format!(r#"{{"content":"word{word} "}}"#), "null"));
    }
    events.push(chunk(
        &format!(
            r#"{{"tool_calls":[{{"index":0,"id":"call_{step}","type":"function","function":{{"name":"read_file","arguments":""}}}}]}}"#
        ),
        "null",
    ));
    for piece in [r#"{\"path\": "#.to_owned(), format!(r#"\"f{}.txt\""#, step % 20), "}".to_owned()] {
        events.push(chunk(
            &format!(r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":"{piece}"}}}}]}}"#),
            "null",
        ));
    }
    events.extend([chunk("{}", r#""tool_calls""#), usage(28), "[DONE]".to_owned()]);
    stream_of(&events)
}

fn text_reply(words: usize) -> Vec<u8> {
    let mut events = vec![chunk(r#"{"role":"assistant","content":""}"#, "null")];
    events.extend((0..words).map(|n| chunk(&format!(r#"{{"content":"word{n} "}}"#), "null")));
    events.extend([chunk("{}", r#""stop""#), usage(words), "[DONE]".to_owned()]);
    stream_of(&events)
}
