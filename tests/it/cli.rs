//! The command line: what people and programs see, and the exit status.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use hames_testkit::{HttpReply, ModelServer, Piece, SseReply};

use crate::program::{Home, root};

/// Reads a file, tries to write one, answers from what was read.
const READS_AND_WRITES: &str = r#"
[[exchange]]
[exchange.reply]
text = "Looking."
usage = { input_tokens = 1200, output_tokens = 30, charged_microdollars = 900 }
[[exchange.reply.calls]]
name = "read_file"
arguments = { path = "note.txt" }
[[exchange.reply.calls]]
name = "write_file"
arguments = { path = "new.txt", content = "made by a model" }
[[exchange.reply.calls]]
name = "raed_file"
arguments = { path = "note.txt" }
[[exchange]]
[exchange.reply]
text = "The note says {{result 0 | match (\\w+)}}.\u001b[31m Not red."
usage = { input_tokens = 1400, output_tokens = 20, charged_microdollars = 350 }
"#;

#[test]
fn a_turn_reads_real_files_and_asks_before_it_writes() {
    let home = Home::new();
    home.write("work/note.txt", "hello\n");
    let recorded = home.recording(READS_AND_WRITES);
    let ran = home.run(["run", &recorded, "what does the note say?"]);
    home.snapshots().bind(|| insta::assert_snapshot!("run_reads_and_writes", ran.text()));
    assert!(!home.path("work/new.txt").exists(), "without a terminal nobody said yes");

    let ran = home.run(["run", &recorded, "--approve", "always", "what does the note say?"]);
    assert_eq!((ran.status, home.read("work/new.txt").as_str()), (0, "made by a model"));
}

#[test]
fn json_is_one_event_a_line_without_gaps() {
    let home = Home::new();
    home.write("work/note.txt", "hello\n");
    let recorded = home.recording(READS_AND_WRITES);
    let ran = home.run(["run", &recorded, "--json", "what does the note say?"]);
    let events: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    assert_eq!(events.last().unwrap()["end"], "completed");
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let schema: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(root().join("host/hames/schema/event.json")).unwrap())
            .unwrap();
    for kind in &kinds {
        assert!(schema.to_string().contains(&format!("\"const\":\"{kind}\"")), "`{kind}` is in the schema");
    }
    assert_eq!(kinds.iter().filter(|kind| **kind == "ended").count(), 1);
}

#[test]
fn what_is_typed_wrong_is_said_with_a_hint() {
    let home = Home::new();
    let mut text = String::new();
    for arguments in [
        vec!["run", ""],
        vec!["run", "--provider", "opnai", "hi"],
        vec!["run", "--provider", "openai", "hi"],
        vec!["run", "--provider", "recorded:nowhere.toml", "hi"],
        vec!["run", "--workspace", "nowhere", "hi"],
        vec!["plugin", "inspect", "file"],
        vec!["plugin", "call", "read_flie"],
        vec!["plugin", "call", "read_file", "{}"],
        vec!["plugin", "call", "read_file", "{\"path\":\"nowhere.txt\"}"],
        vec!["policy", "explain", "write_fil"],
        vec!["session", "show", "nothing"],
    ] {
        text.push_str(&format!("$ hames {}\n{}\n", arguments.join(" "), home.run(&arguments).text()));
    }
    home.snapshots().bind(|| insta::assert_snapshot!("typed_wrong", text));
}

#[test]
fn plugins_are_listed_inspected_and_called() {
    let home = Home::new();
    home.write("work/note.txt", "hello\n");
    let mut text = String::new();
    for arguments in [
        vec!["plugin", "list"],
        vec!["plugin", "inspect", "search"],
        vec!["plugin", "call", "read_file", "{\"path\":\"note.txt\"}"],
        vec!["plugin", "call", "write_file", "{\"path\":\"x\",\"content\":\"y\"}"],
    ] {
        text.push_str(&format!("$ hames {}\n{}\n", arguments.join(" "), home.run(&arguments).text()));
    }
    home.snapshots().bind(|| insta::assert_snapshot!("plugins", text));
}

#[test]
fn a_prompt_comes_from_standard_input_and_a_closed_pipe_is_no_panic() {
    let home = Home::new();
    let recorded = home.recording(
        "[[exchange]]\nexpect = { last_user_contains = \"from a pipe\" }\nreply = { text = \"yes\" }",
    );
    home.write("prompt.txt", "this comes from a pipe\n");
    let mut command = home.command(["run", &recorded, "-"]);
    command.stdin(std::fs::File::open(home.path("prompt.txt")).unwrap());
    let ran = crate::program::ran(&mut command);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "yes\n"), "{}", ran.stderr);

    let recorded =
        home.recording(&format!("[[exchange]]\nreply = {{ text = \"{}\" }}", "word ".repeat(50_000)));
    let mut child = home
        .command(["run", &recorded, "talk"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 4];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut first).unwrap();
    drop(out);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    child.wait().unwrap();
    assert!(!stderr.contains("panic"), "{stderr}");
}

#[test]
fn output_that_cannot_be_written_is_told() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        return eprintln!("skipped: this system has no /dev/full");
    };
    let home = Home::new();
    let recorded = home.recording("[[exchange]]\nreply = { text = \"an answer\" }");
    let output = home.command(["run", &recorded, "talk"]).stdout(full).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("error: standard output cannot be written: "), "{stderr}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_turn_that_does_not_stop_is_left_when_told_twice() {
    let home = Home::new();
    let recorded = home.recording(READS_AND_WRITES);
    // Somebody holds the file in which actions are counted: the gate waits for it, deaf to the fence.
    home.write("state/actions", "");
    let held = std::fs::File::open(home.path("state/actions")).unwrap();
    held.lock().unwrap();
    let mut child = home
        .command(["run", &recorded, "--approve", "always", "--json", "write"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut events = BufReader::new(child.stdout.take().unwrap()).lines();
    events.find(|line| line.as_ref().unwrap().contains("\"cost_updated\"")).unwrap().unwrap();
    let pid = rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    let status = loop {
        // Signals that come together count as one.
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!(status.code(), Some(143));
}

/// A server whose reply begins and then stalls.
async fn stalling_server() -> ModelServer {
    let begins = SseReply::new().delta(&serde_json::json!({"content": "Begin. "})).without_done();
    ModelServer::start([begins.after(usize::MAX, Piece::Stall)]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_end_a_turn_in_order() {
    for (signal, status) in [(rustix::process::Signal::INT, 130), (rustix::process::Signal::TERM, 143)] {
        let server = stalling_server().await;
        let home = Home::new();
        let mut child = home
            .command(["run", "--model", "m", "--base-url", &server.base_url(), "talk"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut begun = vec![];
        out.read_until(b' ', &mut begun).unwrap();
        assert_eq!(begun, b"Begin. ");
        let pid = rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(status));
        let id = home.sessions().remove(0);
        let entries = home.transcript(&id);
        let end = entries.last().unwrap();
        assert_eq!((end["record"].as_str(), end["end"].as_str()), (Some("turn_ended"), Some("interrupted")));
        assert_eq!(end["text"], "Begin. ", "what was reached is kept");
    }
}

#[test]
fn a_server_that_answers_nonsense_fails_the_turn_and_keeps_the_session() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime
        .block_on(ModelServer::start([HttpReply::json(401, "{\"error\":{\"message\":\"bad key\"}}")]))
        .unwrap();
    let home = Home::new();
    let url = server.base_url();
    let ran = home.run(["run", "--model", "m", "--base-url", &url, "talk"]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("bad key") && ran.stderr.contains("hint: "), "{}", ran.stderr);
    let id = home.sessions().remove(0);
    assert_eq!(home.transcript(&id).last().unwrap()["end"], "failed");
}

#[test]
fn a_reply_is_read_as_a_turn_reads_it() {
    let home = Home::new();
    home.write(
        "work/tools.json",
        r#"[{"name": "read_file", "description": "reads", "parameters": {"type": "object",
            "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["path"]}}]"#,
    );
    let parse = |notation: &str, reply: &str, more: &[&str]| {
        home.write("work/reply.txt", reply);
        let mut arguments =
            vec!["debug", "parse", "--notation", notation, "--tools", "tools.json", "reply.txt"];
        arguments.extend(more);
        let ran = home.run(arguments);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
        serde_json::from_str::<serde_json::Value>(&ran.stdout).expect("one JSON object")
    };
    let hermes = "Grüße.\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"ä\", \"limit\": 2}}\n</tool_call>";
    let read = serde_json::json!({"name": "read_file", "arguments": {"path": "ä", "limit": 2}});
    for more in [&[][..], &["--chunk", "1"], &["--chunk", "7", "--finish", "tool_calls"]] {
        let expected = serde_json::json!({"text": "Grüße.", "calls": [read], "error": null});
        assert_eq!(parse("hermes", hermes, more), expected);
        assert_eq!(parse("pformat", "Grüße.\n<tool_call>\nread_file[ä|2]\n</tool_call>", more), expected);
    }
    let cut = parse("hermes", &hermes[..hermes.len() - 20], &["--finish", "length"]);
    assert_eq!(cut["calls"], serde_json::json!([]));
    assert!(cut["error"].is_string(), "{cut}");
    let thought = parse("hermes", &format!("{hermes}\n</think>\nNo."), &["--prefilled-think"]);
    assert_eq!(thought, serde_json::json!({"text": "No.", "calls": [], "error": null}));

    let ran = home.run(["debug", "parse", "--notation", "herms", "--tools", "tools.json", "reply.txt"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("did you mean `hermes`?"), "{}", ran.stderr);
    home.write("work/tools.json", "{}");
    let ran = home.run(["debug", "parse", "--tools", "tools.json", "reply.txt"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("hint: write [{"), "{}", ran.stderr);
}

#[test]
fn what_debug_parse_cannot_read_is_the_users_to_mend() {
    let home = Home::new();
    home.write("work/tools.json", r#"[{"name": "read_file"}]"#);
    home.write("work/odd.json", r#"[{"name": "read_file", "parameters": 5}]"#);
    home.write("work/reply.txt", "Hello.");
    std::fs::write(home.path("work/latin.txt"), b"Gr\xfc\xdfe").unwrap();
    for (arguments, says) in [
        (["--tools", "tools.json", "absent.txt"].as_slice(), "hint: check the name"),
        (&["--tools", "absent.json", "reply.txt"], "hint: check the name"),
        (&["--tools", "tools.json", "latin.txt"], "hint: write it as UTF-8"),
        (&["--tools", "tools.json", "."], "hint: name a file"),
        (&["--tools", "-", "-"], "hint: put one of them into a file"),
        (&["--tools", "odd.json", "reply.txt"], "hint: write [{"),
        (&["--tools", "tools.json", "--chunk", "0", "reply.txt"], "invalid value '0' for '--chunk"),
    ] {
        let ran = home.run(["debug", "parse"].iter().chain(arguments));
        assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn debug_stream_prints_the_reply_in_a_recorded_body() {
    let home = Home::new();
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"Gr\u{fc}\u{df}e\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    home.write("work/body.sse", body);
    for more in [&[][..], &["--chunk", "1"]] {
        let ran = home.run(["debug", "stream", "--protocol", "openai-chat", "body.sse"].iter().chain(more));
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&ran.stdout).expect("one JSON object"),
            serde_json::json!({
                "text": "Gr\u{fc}\u{df}e", "reasoning": "", "tool_calls": [], "usage": null, "stop": "end", "error": null,
            })
        );
    }
    for (arguments, says) in [
        (["--protocol", "openai-chat", "absent.sse"], "hint: check the name"),
        (["--protocol", "openai-chat", "."], "hint: name a file"),
        (["--protocol", "openai-cat", "body.sse"], "openai-chat"),
    ] {
        let ran = home.run(["debug", "stream"].iter().chain(&arguments));
        assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{arguments:?}: {}", ran.stderr);
    }
}
