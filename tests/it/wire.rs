//! The whole program against a model server on loopback that speaks the real wire format and misbehaves: what it retries,
//! what it never runs, what it tells, and that a session can always go on.

use std::time::Duration;

use hames_testkit::{HttpReply, ModelServer, Piece, SseReply};
use serde_json::Value;

use crate::program::{Home, KEY, Ran};

/// The program's run against a server, and what the server was asked.
struct Played {
    ran: Ran,
    server: ModelServer,
    home: Home,
}

fn read_notes() -> HttpReply {
    SseReply::calls([("call_a", "read_file", r#"{"path":"notes.txt"}"#)]).usage(100, 10).done()
}

fn answer() -> HttpReply {
    SseReply::text("The notes say: buy oats.").usage(120, 9).done()
}

async fn play(replies: Vec<HttpReply>) -> Played {
    play_with(replies, "").await
}

async fn play_with(replies: Vec<HttpReply>, config: &str) -> Played {
    let home = Home::new();
    home.write("work/notes.txt", "buy oats\n");
    home.write("config/hames.toml", config);
    let server = ModelServer::start(replies).await.unwrap();
    let ran = ask(&home, &server, &[]).await;
    Played { ran, server, home }
}

async fn ask(home: &Home, server: &ModelServer, more: &[&str]) -> Ran {
    let mut command = home.command(["run", "--model", "openai/fake", "--base-url", &server.base_url()]);
    command.args(more).arg("what do the notes say?").env("OPENAI_API_KEY", KEY);
    tokio::task::spawn_blocking(move || crate::program::ran(&mut command)).await.unwrap()
}

impl Played {
    /// The messages of a request.
    fn messages(&self, request: usize) -> Vec<Value> {
        self.server.requests()[request].json()["messages"].as_array().unwrap().clone()
    }

    fn last_message(&self) -> Value {
        let requests = self.server.requests().len();
        self.messages(requests - 1).last().unwrap().clone()
    }

    fn assert_answered(&self, requests: usize) {
        assert_eq!(self.ran.status, 0, "{}", self.ran.text());
        assert!(self.ran.stdout.contains("The notes say: buy oats."), "{}", self.ran.text());
        assert_eq!(self.server.requests().len(), requests, "{}", self.ran.text());
        self.assert_every_call_has_one_result();
    }

    /// On the wire: every request; on disk: the transcript.
    fn assert_every_call_has_one_result(&self) {
        for request in 0..self.server.requests().len() {
            let messages = self.messages(request);
            let mut open: Vec<String> = Vec::new();
            for message in &messages {
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    open.push(call["id"].as_str().unwrap().to_owned());
                }
                if message["role"] == "tool" {
                    let id = message["tool_call_id"].as_str().unwrap();
                    let at =
                        open.iter().position(|known| known == id).expect("a result answers an open call");
                    open.remove(at);
                }
            }
            assert!(open.is_empty(), "request {request} leaves calls open: {open:?}");
        }
        let session = self.home.sessions().pop().unwrap();
        let transcript = self.home.transcript(&session);
        let ends = transcript.iter().filter(|entry| entry["record"] == "turn_ended").count();
        assert_eq!(ends, 1, "one turn, one end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_reads_through_the_sandbox_on_one_connection() {
    let played = play(vec![read_notes().chunked(7), answer().chunked(1)]).await;
    played.assert_answered(2);
    assert_eq!(played.server.connections(), 1, "the connection is kept alive");
    assert!(
        played.last_message()["content"].as_str().unwrap().contains("buy oats"),
        "{}",
        played.last_message()
    );
    let bodies: Vec<Vec<u8>> = played.server.requests().iter().map(|request| request.body.clone()).collect();
    let first = String::from_utf8(bodies[0].clone()).unwrap();
    let second = String::from_utf8(bodies[1].clone()).unwrap();
    let shared = first.trim_end_matches('}').trim_end_matches(']');
    assert!(second.starts_with(shared), "the second request extends the first:\n{first}\n{second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_stream_is_retried_and_told() {
    let broken = SseReply::text("The notes say: nothing at all, I think.").done().after(300, Piece::Cut);
    let played = play(vec![read_notes(), broken, answer()]).await;
    played.assert_answered(3);
    assert!(played.ran.stderr.contains("attempt 1 failed"), "{}", played.ran.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_stream_is_noticed_and_retried() {
    let stalled = answer().after(200, Piece::Stall);
    let played = play_with(vec![read_notes(), stalled, answer()], "[limits]\nprovider_idle_ms = 400\n").await;
    played.assert_answered(3);
    assert!(played.ran.stderr.contains("no sign of life"), "{}", played.ran.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_is_obeyed_once() {
    let busy = HttpReply::json(429, r#"{"error":{"message":"slow down"}}"#).header("retry-after", "1");
    let begun = std::time::Instant::now();
    let played = play(vec![busy, read_notes(), answer()]).await;
    let took = begun.elapsed();
    played.assert_answered(3);
    assert!(took >= Duration::from_secs(1), "the wait was kept: {took:?}");
    assert_eq!(played.ran.stderr.matches("slow down").count(), 1, "told once: {}", played.ran.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_stays_broken_ends_the_turn_and_the_session_goes_on() {
    let broken = || HttpReply::json(500, r#"{"error":{"message":"the server is on fire"}}"#);
    let played =
        play_with(vec![read_notes(), broken(), broken(), answer()], "[limits]\nmax_attempts = 2\n").await;
    assert_ne!(played.ran.status, 0, "{}", played.ran.text());
    assert!(played.ran.stderr.contains("the server is on fire"), "{}", played.ran.text());
    assert!(played.ran.stderr.contains("hint:"), "{}", played.ran.text());
    played.assert_every_call_has_one_result();

    let session = played.home.sessions().pop().unwrap();
    let again = ask(&played.home, &played.server, &["--session", &session]).await;
    assert_eq!(again.status, 0, "{}", again.text());
    let messages = played.messages(3);
    assert!(
        messages
            .iter()
            .any(|message| message["content"].as_str().is_some_and(|text| text.contains("buy oats"))),
        "what was read before the failure is still there: {messages:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_that_do_not_pass_cost_one_request() {
    for status in [400, 401, 402, 403, 404, 413, 422] {
        let words = format!(r#"{{"error":{{"message":"no, and it is final, {KEY}"}}}}"#);
        let refused = HttpReply::json(status, &words);
        let played = play(vec![refused, answer()]).await;
        assert_eq!(played.server.requests().len(), 1, "status {status}");
        assert_ne!(played.ran.status, 0, "status {status}");
        assert!(played.ran.stderr.contains("no, and it is final"), "{}", played.ran.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_stream_is_an_error_with_a_hint() {
    let page = || HttpReply::of(200, "text/html", "<html>Sign in to the network</html>");
    let played = play_with(vec![page(), page()], "[limits]\nmax_attempts = 2\n").await;
    assert_ne!(played.ran.status, 0);
    assert!(played.ran.stderr.contains("hint:"), "{}", played.ran.text());
    played.assert_every_call_has_one_result();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_cut_off_is_never_run() {
    let cut = SseReply::new()
        .call("call_w", "write_file", r#"{"path":"a.txt","content":"half of"#)
        .stop("length")
        .usage(10, 10)
        .done();
    let played = play_with(vec![cut, answer()], "approve = \"always\"\n").await;
    played.assert_answered(2);
    assert!(!played.home.path("work/a.txt").exists());
    assert!(
        played.last_message()["content"].as_str().unwrap().contains("cut off"),
        "{}",
        played.last_message()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_are_not_json_go_back_to_the_model() {
    let broken = SseReply::calls([("call_b", "read_file", r#"{"path": notes.txt}"#)]).usage(1, 1).done();
    let played = play(vec![broken, answer()]).await;
    played.assert_answered(2);
    let told = played.last_message()["content"].as_str().unwrap().to_owned();
    assert!(told.contains("JSON"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_tool_and_a_failing_tool_go_back_to_the_model() {
    let calls = SseReply::calls([
        ("call_1", "read_fil", r#"{"path":"notes.txt"}"#),
        ("call_2", "read_file", r#"{"path":"missing.txt"}"#),
        ("call_3", "read_file", r#"{"path":"../../etc/passwd"}"#),
        ("call_4", "read_file", r#"{"path":{"x":1}}"#),
    ])
    .usage(1, 1)
    .done();
    let played = play(vec![calls, answer()]).await;
    played.assert_answered(2);
    let results: Vec<String> = played
        .messages(1)
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(results.len(), 4);
    assert!(results[0].contains("read_file"), "the nearest name is told: {}", results[0]);
    assert!(results[1].contains("missing.txt"), "{}", results[1]);
    assert!(!results[2].contains("root:"), "nothing outside is read: {}", results[2]);
    assert!(results[3].contains("path"), "the place of the mismatch is told: {}", results[3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_answer_is_asked_for_again_and_never_a_success() {
    let empty = || SseReply::new().stop("stop").usage(1, 0).done();
    let played = play(vec![read_notes(), empty(), answer()]).await;
    played.assert_answered(3);

    let played = play(vec![read_notes(), empty(), empty(), answer()]).await;
    assert_ne!(played.ran.status, 0, "{}", played.ran.text());
    assert_eq!(played.server.requests().len(), 3);
    played.assert_every_call_has_one_result();
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_calls_with_one_id_get_their_own() {
    let twins = SseReply::calls([
        ("same", "read_file", r#"{"path":"notes.txt"}"#),
        ("same", "list_files", r#"{"path":"."}"#),
    ])
    .usage(1, 1)
    .done();
    let played = play(vec![twins, answer()]).await;
    played.assert_answered(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_a_person_is_refused_with_the_line_that_allows_it() {
    let write =
        SseReply::calls([("call_w", "write_file", r#"{"path":"a.txt","content":"x"}"#)]).usage(1, 1).done();
    let played = play(vec![write, answer()]).await;
    played.assert_answered(2);
    assert!(!played.home.path("work/a.txt").exists());
    let told = played.last_message()["content"].as_str().unwrap().to_owned();
    assert!(told.contains("policy.toml") && told.contains("write_file"), "{told}");
}

#[tokio::test]
async fn a_picture_reaches_a_model_that_sees_and_stops_before_one_that_does_not() {
    let home = Home::new();
    home.write("work/dot.gif", "GIF89a\u{1}\0\u{1}\0");
    home.write("work/notes.png", "no picture");
    let server = ModelServer::start([answer(), answer()]).await.unwrap();
    let ran = ask(&home, &server, &["--image", "dot.gif"]).await;
    assert_eq!(ran.status, 0, "{}", ran.text());
    let request = server.requests()[0].json();
    let content = &request["messages"].as_array().unwrap().last().unwrap()["content"];
    assert_eq!(content[0]["text"], "what do the notes say?");
    assert_eq!(content[1]["image_url"]["url"], "data:image/gif;base64,R0lGODlhAQABAA==");

    home.write("config/hames.toml", "[models.fake]\nimages = false\n");
    let ran = ask(&home, &server, &["--image", "dot.gif"]).await;
    assert_ne!(ran.status, 0);
    assert!(ran.text().contains("`fake` sees none"), "{}", ran.text());
    assert!(ran.text().contains("hint: choose a model that sees images"), "{}", ran.text());
    let ran = ask(&home, &server, &["--image", "notes.png"]).await;
    assert!(ran.text().contains("10 bytes are no PNG, JPEG, GIF or WebP image"), "{}", ran.text());
    let ran = ask(&home, &server, &["--image", "gone.png"]).await;
    assert!(ran.text().contains("the image `gone.png`"), "{}", ran.text());
    assert_eq!(server.requests().len(), 1);
}
