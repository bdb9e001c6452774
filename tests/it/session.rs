//! Sessions through the program: kept, resumed with the same bytes, shown, protected from a second writer.

use std::process::Stdio;

use hames_testkit::{ModelServer, Piece, SseReply};

use crate::program::Home;

const TWO_TURNS: &str = r#"
[[exchange]]
expect = { last_user_contains = "first" }
reply = { text = "one", calls = [{ name = "read_file", arguments = { path = "a.txt" } }], usage = { input_tokens = 100, output_tokens = 10 } }
[[exchange]]
reply = { text = "answer one", usage = { input_tokens = 100, output_tokens = 10 } }
[[exchange]]
expect = { last_user_contains = "second" }
reply = { text = "answer two", usage = { input_tokens = 100, output_tokens = 10 } }
"#;

#[test]
fn a_session_goes_on_in_another_process() {
    let home = Home::new();
    home.write("work/a.txt", "a\n");
    let recorded = home.recording(TWO_TURNS);
    let first = home.run(["run", &recorded, "first"]);
    assert_eq!(first.status, 0, "{}", first.text());
    let id = home.sessions().remove(0);
    let before = home.read(&format!("state/sessions/{id}.jsonl"));
    let second = home.run(["run", &recorded, "--session", &id, "second"]);
    assert_eq!((second.status, second.stdout.as_str()), (0, "answer two\n"), "{}", second.text());
    let after = home.read(&format!("state/sessions/{id}.jsonl"));
    assert!(after.starts_with(&before), "what was written is never changed");

    let mut text = String::new();
    for arguments in [vec!["session", "list"], vec!["session", "show", &id]] {
        text.push_str(&format!("$ hames {}\n{}\n", arguments.join(" "), home.run(&arguments).text()));
    }
    home.snapshots().bind(|| insta::assert_snapshot!("sessions", text));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_after_a_resume_begin_with_the_bytes_of_those_before() {
    let replies = [
        SseReply::calls([("c1", "read_file", "{ \"path\" : \"a.txt\" }")]).usage(10, 2).done(),
        SseReply::text("one").usage(20, 2).done(),
        SseReply::text("two").usage(30, 2).done(),
    ];
    let server = ModelServer::start(replies).await.unwrap();
    let home = Home::new();
    home.write("work/a.txt", "a\n");
    let url = server.base_url();
    let run = |more: &[&str]| {
        let mut arguments = vec!["run", "--model", "m", "--base-url", &url];
        arguments.extend_from_slice(more);
        let ran = home.run(arguments);
        assert_eq!(ran.status, 0, "{}", ran.text());
    };
    run(&["first"]);
    let id = home.sessions().remove(0);
    run(&["--session", &id, "second"]);
    let bodies: Vec<String> =
        server.requests().iter().map(|request| String::from_utf8(request.body.clone()).unwrap()).collect();
    assert_eq!(bodies.len(), 3);
    for pair in bodies.windows(2) {
        // Up to the end of the shorter one's messages.
        let shared = pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
        let messages_end = pair[0].rfind("}]").unwrap();
        assert!(
            shared >= messages_end,
            "only {shared} of {messages_end} bytes are shared:\n{}\n{}",
            pair[0],
            pair[1]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_is_refused_while_the_first_runs() {
    let stalled = SseReply::new().delta(&serde_json::json!({"content": "Begin. "})).without_done();
    let server = ModelServer::start([stalled.after(usize::MAX, Piece::Stall)]).await.unwrap();
    let home = Home::new();
    let url = server.base_url();
    let flags = ["run", "--model", "m", "--base-url", &url];
    let mut first = home.command(flags.iter().chain(&["hi"])).stdout(Stdio::piped()).spawn().unwrap();
    let mut begun = [0; 6];
    std::io::Read::read_exact(first.stdout.as_mut().unwrap(), &mut begun).unwrap();
    let id = home.sessions().remove(0);
    let second = home.run(flags.iter().chain(&["--session", &id, "me too"]));
    assert_eq!(second.status, 1, "{}", second.text());
    let expected = format!("session `{id}` is in use by process {}", first.id());
    assert!(second.stderr.contains(&expected), "{}", second.text());
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn chat_reads_lines_and_ends_with_its_input() {
    let home = Home::new();
    home.write("work/a.txt", "a\n");
    let recorded = home.recording(TWO_TURNS);
    home.write("lines.txt", "first\n\n/cost\nsecond\n");
    let mut command = home.command(["chat", &recorded]);
    command.stdin(std::fs::File::open(home.path("lines.txt")).unwrap());
    let ran = crate::program::ran(&mut command);
    assert_eq!(ran.status, 0, "{}", ran.text());
    assert!(ran.stdout.contains("answer one") && ran.stdout.contains("answer two"), "{}", ran.text());
    assert_eq!(home.sessions().len(), 1);
}

#[test]
fn a_line_that_is_not_utf_8_does_not_end_a_chat() {
    let home = Home::new();
    home.write("work/a.txt", "a\n");
    let recorded = home.recording(TWO_TURNS);
    std::fs::write(home.path("lines.txt"), b"caf\xe9\nfirst\nsecond\n").unwrap();
    let mut command = home.command(["chat", &recorded]);
    command.stdin(std::fs::File::open(home.path("lines.txt")).unwrap());
    let ran = crate::program::ran(&mut command);
    assert_eq!(ran.status, 0, "{}", ran.text());
    assert!(ran.stderr.contains("not UTF-8") && ran.stdout.contains("answer two"), "{}", ran.text());
}
