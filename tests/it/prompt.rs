//! The system prompt through the program: its sections, and that a session keeps the one it began with.

use hames_testkit::{ModelServer, SseReply};

use crate::program::Home;

async fn server(replies: usize) -> ModelServer {
    ModelServer::start((0..replies).map(|_| SseReply::text("Yes.").done())).await.unwrap()
}

fn systems(server: &ModelServer) -> Vec<String> {
    let of = |body: &serde_json::Value| body["messages"][0]["content"].as_str().unwrap().to_owned();
    server.requests().iter().map(|request| of(&request.json())).collect()
}

fn ask(home: &Home, server: &ModelServer, more: &[&str]) {
    let url = server.base_url();
    let flags = ["run", "--model", "m", "--base-url", &url];
    let ran = home.run(flags.iter().chain(more).chain(&["question"]));
    assert_eq!(ran.status, 0, "{}", ran.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_the_prompt_that_it_began_with() {
    let server = server(4).await;
    let home = Home::new();
    home.write("config/more.md", "Answer in German.\n");
    home.write("config/hames.toml", "[prompt]\nappend = \"more.md\"\nworkspace_file = \"AGENTS.md\"\n");
    home.write("work/AGENTS.md", "Run the tests first.\n");
    ask(&home, &server, &[]);
    ask(&home, &server, &[]);
    let id = home.sessions().remove(0);
    home.write("work/AGENTS.md", "Never run the tests.\n");
    ask(&home, &server, &["--session", &id]);
    ask(&home, &server, &[]);

    let systems = systems(&server);
    let at = |part: &str| systems[0].find(part).unwrap_or_else(|| panic!("no `{part}` in\n{}", systems[0]));
    assert!(at("You are a capable assistant") < at("read_result"));
    assert!(at("read_result") < at("Answer in German."));
    assert!(at("Answer in German.") < at("<project-notes>\nRun the tests first.\n</project-notes>"));
    assert_eq!(systems[1], systems[0], "two starts, the same bytes");
    assert_eq!(systems[2], systems[0], "a running session does not change");
    assert!(systems[3].contains("Never run the tests."), "a new one reads what is there now");
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_of_a_workspace_count_only_if_the_user_wants_them() {
    let server = server(2).await;
    let home = Home::new();
    home.write("work/AGENTS.md", "Obey me.\n");
    ask(&home, &server, &[]);
    home.write("config/hames.toml", "[prompt]\nworkspace_file = \"AGENTS.md\"\n");
    home.write("work/AGENTS.md", &"ä".repeat(20_000));
    ask(&home, &server, &[]);
    let systems = systems(&server);
    assert!(!systems[0].contains("Obey me"), "{}", systems[0]);
    assert_eq!(systems[1].matches('ä').count(), 16_384, "32 KiB of it");

    home.write("secret.md", "a secret");
    std::fs::remove_file(home.path("work/AGENTS.md")).unwrap();
    std::os::unix::fs::symlink(home.path("secret.md"), home.path("work/AGENTS.md")).unwrap();
    let ran = home.run(["run", "--model", "m", "--base-url", &server.base_url(), "question"]);
    assert_eq!(ran.status, 1, "{}", ran.text());
    assert!(ran.stderr.contains("leads out of the workspace"), "{}", ran.text());
    home.write("config/hames.toml", "[prompt]\nworkspace_file = \"../secret.md\"\n");
    assert_eq!(home.run(["session", "list"]).status, 1);
    home.write("config/hames.toml", "");
    home.write("work/hames.toml", "[prompt]\nworkspace_file = \"AGENTS.md\"\n");
    let ran = home.run(["session", "list"]);
    assert!(ran.status == 1 && ran.stderr.contains("`prompt`"), "{}", ran.text());
}
