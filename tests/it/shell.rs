//! The `shell` tool with a real shell, and through the program: off by default, asked about, kept whole.

use std::sync::Arc;

use hames::config::Environment;
use hames::shell::Shell;
use hames_core::fence::Fence;
use hames_core::tool::{CallContext, Invocation, Tool};
use hames_core::types::{AgentPath, CallId, FailureKind, Part, SessionId, ToolFailure, ToolOutput, TurnId};
use serde_json::{Value, json};

use crate::program::{Home, KEY};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    async fn call(&self, arguments: Value) -> Result<ToolOutput, ToolFailure> {
        let path = std::env::var("PATH").unwrap();
        let vars = [("PATH", path.as_str()), ("HOME", "/home/x"), ("OPENAI_API_KEY", KEY)];
        let shell = Shell::new(self.dir.path(), &Environment::new(vars, self.dir.path()));
        let arguments_json = arguments.to_string().into();
        let context = CallContext {
            session_id: SessionId::new("s"),
            turn_id: TurnId::new("t"),
            agent: AgentPath::root(),
            fence: Fence::new(),
        };
        let (call_id, arguments) = (CallId::new("c"), Arc::new(arguments));
        shell.call(Invocation { call_id, arguments, arguments_json, context }).await
    }

    async fn parts(&self, command: &str) -> Vec<Part> {
        self.call(json!({"command": command})).await.unwrap().parts
    }
}

fn place() -> Place {
    Place { dir: tempfile::tempdir().unwrap() }
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

#[tokio::test]
async fn output_errors_and_status_are_told_apart() {
    let place = place();
    assert_eq!(place.parts("true").await, [text("[exit status 0]")]);
    assert_eq!(
        place.parts("echo out; echo err >&2; exit 7").await,
        [text("out\n"), text("[stderr]\nerr\n"), text("[exit status 7]")]
    );
    assert_eq!(place.parts("kill -9 $$").await, [text("[killed by signal 9]")]);
    let slow = place.call(json!({"command": "echo a; sleep 60", "timeout_ms": 300})).await.unwrap();
    assert_eq!(slow.parts, [text("a\n"), text("[killed after 300 ms (`timeout_ms`), not done]")]);
}

#[tokio::test]
async fn it_runs_in_the_workspace_without_the_environment() {
    let place = place();
    let here = place.dir.path().canonicalize().unwrap();
    assert_eq!(place.parts("pwd -P").await[0], text(&format!("{}\n", here.display())));
    let Part::Text(env) = place.parts("env").await.remove(0) else { unreachable!() };
    let own = ["PATH", "HOME", "PWD", "SHLVL", "_"];
    let names: Vec<&str> = env.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(names.iter().all(|name| own.contains(name)), "{env}");
}

#[tokio::test]
async fn bytes_that_are_no_text_stay_whole() {
    let place = place();
    let bytes = |name: &str, bytes: &[u8]| Part::Blob {
        media_type: "application/octet-stream".to_owned(),
        name: Some(name.to_owned()),
        bytes: bytes.to_vec(),
    };
    assert_eq!(place.parts("printf 'a\\0b'").await, [bytes("stdout", b"a\0b"), text("[exit status 0]")]);
    assert_eq!(
        place.parts("printf 'gr\\374n'").await,
        [text("gr\u{fffd}n"), bytes("stdout", b"gr\xfcn"), text("[exit status 0]")]
    );
}

#[tokio::test]
async fn a_workspace_that_is_gone_is_a_failure() {
    let place = place();
    std::fs::remove_dir(place.dir.path()).unwrap();
    let failure = place.call(json!({"command": "true"})).await.unwrap_err();
    assert!(failure.message.contains("cannot start a shell in"), "{failure:?}");
    let failure = place.call(json!({"command": "a\0b"})).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::InvalidArguments);
}

const WRITES_MUCH: &str = r#"
[[exchange]]
[exchange.reply]
[[exchange.reply.calls]]
name = "shell"
arguments = { command = "head -c 5000000 /dev/zero | tr '\\0' x" }
[[exchange]]
[exchange.reply]
text = "Done."
"#;

#[test]
fn it_is_off_until_the_user_switches_it_on_and_then_asked_about() {
    let home = Home::new();
    let recorded = home.recording(WRITES_MUCH);
    let result = |home: &Home| {
        let entries = home.transcript(&home.sessions().pop().unwrap());
        entries.into_iter().find(|entry| entry["record"] == "call_finished").unwrap()
    };
    home.run(["run", &recorded, "--approve", "always", "go"]);
    assert_eq!(result(&home)["failure"]["kind"], "unknown_tool");

    home.write("work/hames.toml", "[tools.shell]\nenabled = true\n");
    let ran = home.run(["run", &recorded, "go"]);
    assert!(
        ran.status == 1 && ran.stderr.contains("`tools`"),
        "a workspace switches nothing on: {}",
        ran.text()
    );
    std::fs::remove_file(home.path("work/hames.toml")).unwrap();

    home.write("config/hames.toml", "[tools.shell]\nenabled = true\n");
    std::fs::remove_dir_all(home.path("state")).unwrap();
    home.run(["run", &recorded, "go"]);
    assert_eq!(result(&home)["failure"]["kind"], "not_approved", "nobody is there to ask");

    std::fs::remove_dir_all(home.path("state")).unwrap();
    let ran = home.run(["run", &recorded, "--approve", "always", "go"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "Done.\n"), "{}", ran.text());
    let largest = largest_file(&home.path("state/results"));
    assert!((5_000_000..5_000_100).contains(&largest), "all of it is kept: {largest}");
}

fn largest_file(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| if path.is_dir() { largest_file(&path) } else { path.metadata().unwrap().len() })
        .max()
        .unwrap_or(0)
}
