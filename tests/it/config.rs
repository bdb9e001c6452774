//! Configuration through the program: what is wrong is said with its place, and a workspace cannot help itself to more.

use crate::program::Home;

#[test]
fn files_that_are_wrong_are_named_with_line_and_nearest_key() {
    let home = Home::new();
    let mut text = String::new();
    for (file, content) in [
        ("config/hames.toml", "model = \"m\"\n[limits]\nmax_iteration = 3\n"),
        ("config/hames.toml", "model = 3\n"),
        ("config/hames.toml", "[limits.plugin]\nwall_msec = 3\n"),
        ("config/hames.toml", "[plugins.files.conf]\na = 1\n"),
        ("config/hames.toml", "approve = \"alway\"\n"),
        ("config/hames.toml", "model = \n"),
        ("work/hames.toml", "[providers.mine]\nbase_url = \"http://203.0.113.1/v1\"\n"),
        ("work/hames.toml", "approve = \"always\"\n"),
        ("work/hames.toml", "[limits]\nmax_iterations = 1000\n"),
        ("work/hames.toml", "[plugins]\ndirs = [\"plugins\"]\n"),
        ("work/hames.toml", "provider = \"min\"\n"),
    ] {
        home.write(file, content);
        let ran = home.run(["session", "list"]);
        text.push_str(&format!("# {file}\n{content}{}\n", ran.text()));
        std::fs::remove_file(home.path(file)).unwrap();
    }
    home.snapshots().bind(|| insta::assert_snapshot!("wrong_files", text));
}

#[test]
fn a_named_file_that_is_not_there_is_said_in_words() {
    let ran = Home::new().run(["--config", "nowhere.toml", "session", "list"]);
    assert_eq!(ran.status, 1, "{}", ran.text());
    assert!(ran.stderr.contains("nowhere.toml`: no such file\n"), "{}", ran.text());
}

#[test]
fn a_tool_like_no_other_is_answered_for_a_person() {
    let ran = Home::new().run(["plugin", "call", "zzz"]);
    assert_eq!(ran.status, 1, "{}", ran.text());
    assert!(ran.stderr.contains("hint: `hames plugin list` shows the tools"), "{}", ran.text());
}

#[test]
fn a_home_folder_is_no_workspace() {
    let home = Home::new();
    let recorded = home.recording("[[exchange]]\nreply = { text = \"x\" }");
    let dir = home.path("").display().to_string();
    let ran = home.run(["run", "--workspace", &dir, &recorded, "hi"]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("lie inside each other"), "{}", ran.stderr);
}

#[test]
fn an_iteration_limit_ends_the_turn_with_what_was_reached() {
    let home = Home::new();
    home.write("config/hames.toml", "[limits]\nmax_iterations = 1\n");
    home.write("work/a.txt", "a\n");
    let call = "[[exchange]]\nreply = { text = \"step\", calls = [{ name = \"read_file\", arguments = { path = \"a.txt\" } }] }\n";
    let recorded = home.recording(&format!("{call}[[exchange]]\nreply = {{ text = \"reached this\" }}\n"));
    let ran = home.run(["run", &recorded, "hi"]);
    assert_eq!(ran.status, 1, "{}", ran.text());
    assert!(ran.stderr.contains("iterations are used up"), "{}", ran.text());
}
