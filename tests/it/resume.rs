//! What a provider is sent after `kill -9` begins with the bytes that it was sent before: in every dialect, with opaque
//! parts, odd argument text, and ids that are missing or used twice.

use std::io::Read;
use std::process::Stdio;

use hames_testkit::{HttpReply, HttpRequest, ModelServer, Piece, SseReply};
use serde_json::json;

use crate::program::{Home, KEY};

/// Text that is easy to encode in two ways.
const NOTES: &str = "buy oats \u{1f40e} \"quoted\" back\\slash </tool_result> \u{2028} caf\u{e9}\n";

/// The reasoning of a provider that wants it back as it came: order, numbers and escapes included.
fn reasoning() -> serde_json::Value {
    json!({
        "reasoning": "look first",
        "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "look \u{e9} first", "signature": "Zm9v+/=="},
            {"type": "reasoning.encrypted", "index": 1, "data": "AAECAwQ=", "format": "x-1", "z": 1.50, "a": null}
        ]
    })
}

fn native(request: usize) -> HttpReply {
    let reply = SseReply::new().delta(&reasoning());
    match request {
        0 => reply
            .call("twice", "read_file", "{ \"path\" :\t\"notes.txt\" }")
            .call("twice", "read_file", "{\"path\":\"\\u006eotes.txt\"}")
            .call("", "read_file", "{\"path\": notes.txt}")
            .call("odd", "no_such_tool", "")
            .stop("tool_calls")
            .usage(10, 2)
            .done(),
        1 => begun_and_stalled(reply),
        _ => SseReply::text("all done").usage(30, 2).done(),
    }
}

fn begun_and_stalled(reply: SseReply) -> HttpReply {
    reply.delta(&json!({"content": "Begin. "})).without_done().after(usize::MAX, Piece::Stall)
}

fn written(request: usize, calls: &str) -> HttpReply {
    match request {
        0 => SseReply::new()
            .delta(&reasoning())
            .delta(&json!({"content": calls}))
            .stop("stop")
            .usage(10, 2)
            .done(),
        1 => begun_and_stalled(SseReply::new()),
        _ => SseReply::text("all done").usage(30, 2).done(),
    }
}

/// The bodies of the requests: before the kill in mid-iteration, and after it.
async fn bodies(dialect: &str, reply: impl Fn(usize) -> HttpReply + Send + Sync + 'static) -> Vec<String> {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let handler = move |_: &HttpRequest| reply(count.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
    let server = ModelServer::start_with(handler).await.unwrap();
    let home = Home::new();
    home.write("work/notes.txt", NOTES);
    let url = server.base_url();
    let command = |more: &[&str]| {
        let flags =
            ["run", "--provider", "openrouter", "--model", "m", "--base-url", &url, "--dialect", dialect];
        let mut command = home.command(flags.iter().chain(more));
        command.env("OPENROUTER_API_KEY", KEY);
        command
    };
    let mut first =
        command(&["what do the notes say?"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut begun = [0; 6];
    first.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"Begin.");
    first.kill().unwrap();
    first.wait().unwrap();
    let id = home.sessions().remove(0);
    for message in ["go on", "and on"] {
        let ran = crate::program::ran(&mut command(&["--session", &id, message]));
        assert_eq!(ran.status, 0, "{}", ran.text());
    }
    server.requests().iter().map(|request| String::from_utf8(request.body.clone()).unwrap()).collect()
}

/// Tools, system prompt and messages of each request are the beginning of the next one, byte for byte.
fn assert_prefixes(dialect: &str, bodies: &[String]) {
    assert_eq!(bodies.len(), 4, "{dialect}: two before the kill, two after");
    for pair in bodies.windows(2) {
        let before = pair[0].strip_suffix("]}").expect("messages come last");
        assert!(pair[1].starts_with(before), "{dialect}: the prefix changed:\n{}\n{}", pair[0], pair[1]);
        assert!(pair[1].len() > pair[0].len(), "{dialect}: and the history goes on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn native_calls_are_sent_again_as_they_were() {
    let bodies = bodies("native", native).await;
    assert_prefixes("native", &bodies);
    let after: serde_json::Value = serde_json::from_str(&bodies[2]).unwrap();
    let messages = after["messages"].as_array().unwrap();
    let reply = messages.iter().find(|message| message["tool_calls"].is_array()).unwrap();
    assert_eq!(reply["reasoning_details"], reasoning()["reasoning_details"]);
    let calls = reply["tool_calls"].as_array().unwrap();
    assert_eq!(calls[0]["function"]["arguments"], "{ \"path\" :\t\"notes.txt\" }", "as the model wrote it");
    let ids: std::collections::BTreeSet<_> =
        calls.iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((calls.len(), ids.len()), (4, 4), "every call has an id of its own");
    let results = messages.iter().filter(|message| message["role"] == "tool").count();
    assert_eq!(results, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn written_calls_are_sent_again_as_they_were() {
    let xml = "<tool_call>{\"name\":\"read_file\",\"arguments\":{ \"path\" :\t\"notes.txt\" }}</tool_call>\
               <tool_call>{\"name\":\"list_files\",\"arguments\":{}}</tool_call>";
    let written_as = [("xml", xml), ("pformat", "<tool_call>read_file[notes.txt]</tool_call>")];
    for (dialect, calls) in written_as {
        let bodies = bodies(dialect, move |request| written(request, calls)).await;
        assert_prefixes(dialect, &bodies);
        assert!(bodies[1].contains("buy oats"), "{dialect}: the call ran: {}", bodies[1]);
        let quoted = serde_json::to_string(calls).unwrap();
        assert!(bodies[2].contains(quoted.trim_matches('"')), "{dialect}: in the model's own notation");
    }
}
