//! The loopback server, seen by the plainest client there is.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use hames_testkit::{HttpReply, ModelServer, Piece, SseReply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn connect(server: &ModelServer) -> TcpStream {
    let address = server.base_url().replace("http://", "").replace("/v1", "");
    TcpStream::connect(address).await.unwrap()
}

async fn ask(stream: &mut TcpStream, body: &str) {
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
}

async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).ends_with(end) && stream.read_buf(&mut seen).await.unwrap() > 0 {}
    String::from_utf8(seen).unwrap()
}

#[tokio::test]
async fn replies_come_in_order_on_one_connection() {
    let server = ModelServer::start([
        HttpReply::json(429, "{}").header("retry-after", "1"),
        SseReply::calls([("call_a", "read_file", r#"{"path":"a"}"#)]).usage(3, 4).done(),
    ])
    .await
    .unwrap();
    let mut stream = connect(&server).await;
    ask(&mut stream, r#"{"n":1}"#).await;
    let first = read_until(&mut stream, "0\r\n\r\n").await;
    assert!(first.starts_with("HTTP/1.1 429 ") && first.contains("retry-after: 1\r\n"), "{first}");
    ask(&mut stream, r#"{"n":2}"#).await;
    let second = read_until(&mut stream, "0\r\n\r\n").await;
    assert!(
        second.contains("\"finish_reason\":\"tool_calls\"") && second.contains("data: [DONE]"),
        "{second}"
    );
    ask(&mut stream, "{}").await;
    assert!(read_until(&mut stream, "0\r\n\r\n").await.contains("the script is used up"));
    let requests = server.requests();
    assert_eq!((requests[1].json()["n"].as_u64(), requests[1].connection), (Some(2), 1));
    assert_eq!((requests.len(), server.connections()), (3, 1));
}

#[tokio::test]
async fn bodies_are_split_cut_and_held_as_asked() {
    let server = ModelServer::start([
        HttpReply::events("0123456789").chunked(4),
        HttpReply::events("0123456789").after(5, Piece::Cut),
        HttpReply::events("0123456789").chunked(2).after(3, Piece::Stall),
    ])
    .await
    .unwrap();
    let mut stream = connect(&server).await;
    ask(&mut stream, "{}").await;
    assert!(read_until(&mut stream, "0\r\n\r\n").await.contains("4\r\n0123\r\n4\r\n4567\r\n2\r\n89\r\n"));
    ask(&mut stream, "{}").await;
    let cut = read_until(&mut stream, "never").await;
    assert!(cut.ends_with("5\r\n01234\r\n"), "the connection closes in mid-body: {cut}");
    let mut stream = connect(&server).await;
    ask(&mut stream, "{}").await;
    assert!(read_until(&mut stream, "1\r\n2\r\n").await.contains("2\r\n01\r\n"));
}
