//! The tool with a real shell.

#![allow(clippy::unwrap_used, reason = "test")]

use hames_core::fence::Fence;
use hames_core::tool::CallContext;
use hames_core::types::{AgentPath, CallId, SessionId, TurnId};
use serde_json::Value;

use super::*;

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    async fn call(&self, arguments: Value) -> Result<ToolOutput, ToolFailure> {
        let path = std::env::var("PATH").unwrap();
        let vars = [("PATH", path.as_str()), ("HOME", "/home/x"), ("OPENAI_API_KEY", "sk-marker")];
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
    let bytes = |name: &str, bytes: &[u8]| blob(name, bytes.to_vec());
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
