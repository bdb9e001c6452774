//! `policy.toml` through the program: it fails closed, it pins, it explains itself.

use crate::program::{Home, plugins};

#[test]
fn rules_are_explained_and_hold() {
    let home = Home::new();
    home.write(
        "config/policy.toml",
        "[effects]\nexternal = \"deny\"\n[tools]\nedit_file = \"allow\"\nread_fil = \"deny\"\n\n\
         [[plugins.files.grant.fs]]\npath = \".\"\nmode = \"ro\"\n\n[plugins.serch]\n",
    );
    let mut text = String::new();
    for arguments in [
        vec!["policy", "check"],
        vec!["policy", "explain", "read_file"],
        vec!["policy", "explain", "edit_file"],
        vec!["policy", "explain", "http_fetch"],
        vec!["plugin", "call", "http_fetch", "{\"url\":\"http://127.0.0.1:1/\"}"],
        vec!["plugin", "call", "edit_file", "{\"path\":\"a.txt\",\"old_text\":\"a\",\"new_text\":\"b\"}"],
    ] {
        home.write("work/a.txt", "a\n");
        text.push_str(&format!("$ hames {}\n{}\n", arguments.join(" "), home.run(&arguments).text()));
    }
    home.snapshots().bind(|| insta::assert_snapshot!("policy", text));
    assert_eq!(home.read("work/a.txt"), "a\n", "granted `ro`, a tool that may run still cannot write");
}

#[test]
fn an_unusable_policy_refuses_every_call() {
    let home = Home::new();
    home.write("work/a.txt", "a\n");
    home.write("config/policy.toml", "[effects]\nread = \"allow\"\nwirte = \"deny\"\n");
    let ran = home.run(["plugin", "call", "read_file", "{\"path\":\"a.txt\"}"]);
    home.snapshots().bind(|| insta::assert_snapshot!("unusable_policy", ran.text()));
    assert_eq!(ran.status, 1);
    // A named file that is not there is no licence either.
    let ran = home.run(["--policy", "nowhere.toml", "plugin", "call", "read_file", "{\"path\":\"a.txt\"}"]);
    assert_eq!(ran.status, 1, "{}", ran.text());
}

#[test]
fn an_unusable_value_is_one_error_with_its_place() {
    let home = Home::new();
    home.write("work/a.txt", "a\n");
    let recorded = home.recording("[[exchange]]\nreply = { text = \"x\" }");
    let mut command = home.command(["policy", "check"]);
    let ran = crate::program::ran(command.env("HAMES_MAX_ACTIONS_PER_HOUR", "x"));
    assert_eq!(ran.status, 1, "{}", ran.text());
    assert!(ran.stderr.contains("HAMES_MAX_ACTIONS_PER_HOUR: `x` is no whole number"), "{}", ran.text());
    for (policy, told) in [
        ("[plugins.weather]\ndigest = \"blake3:1\"\n", "policy.toml:2:10: "),
        ("[plugins.a]\n[plugins.a]\n", "duplicate key `a`"),
    ] {
        home.write("config/policy.toml", policy);
        let doctor = home.run(["doctor"]).stdout;
        assert_eq!(doctor.matches("plugin ").count(), 1, "{doctor}");
        for arguments in [
            vec!["policy", "check"],
            vec!["plugin", "list"],
            vec!["plugin", "call", "list_files"],
            vec!["run", &recorded, "hi"],
        ] {
            let ran = home.run(&arguments);
            assert_eq!(ran.status, 1, "{}", ran.text());
            assert!(ran.stderr.starts_with("error: the policy is unusable"), "{}", ran.text());
            assert!(ran.stderr.contains(told), "{}", ran.text());
            assert!(!ran.stderr.contains("warning"), "{}", ran.text());
        }
    }
}

#[test]
fn names_that_match_nothing_are_told_at_every_run() {
    let home = Home::new();
    home.write("config/policy.toml", "[tools]\nread_fil = \"deny\"\nzzz = \"deny\"\n");
    home.write(
        "config/hames.toml",
        "[plugins]\ndisabled = [\"nope\", \"serch\"]\n[plugins.filez]\nlimits = { wall_ms = 9 }\n",
    );
    let recorded = home.recording("[[exchange]]\nreply = { text = \"x\" }");
    let ran = home.run(["run", &recorded, "hi"]);
    for told in [
        "no tool named `read_fil` is there\nhint: did you mean `read_file`?",
        "[plugins] disabled in hames.toml: no plugin named `nope` is there\n",
        "no plugin named `serch` is there\nhint: did you mean `search`?",
        "no plugin named `filez` is there\nhint: did you mean `files`?",
    ] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.text());
    }
    assert_eq!(ran.status, 0, "{}", ran.text());
    assert_eq!(home.run(["policy", "check"]).status, 1);
}

#[test]
fn a_foreign_plugin_needs_an_entry_that_pins_it() {
    let home = Home::new();
    // `search` under the user's own plugins: same bytes, but not from the bundle.
    let source = plugins().join("search");
    let folder = home.path("foreign/finder");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(source.join("plugin.wasm"), folder.join("plugin.wasm")).unwrap();
    let manifest = std::fs::read_to_string(source.join("plugin.toml")).unwrap();
    std::fs::write(folder.join("plugin.toml"), manifest.replace("name = \"search\"", "name = \"finder\""))
        .unwrap();
    home.write("config/hames.toml", "[plugins]\ndirs = [\"../foreign\"]\ndisabled = [\"search\"]\n");

    let refused = home.run(["plugin", "list"]);
    assert!(
        refused.stderr.contains("has no entry") && refused.stderr.contains("digest = \"blake3:"),
        "{}",
        refused.stderr
    );
    assert!(!refused.stdout.contains("search_text"));

    // The lines of the message are the lines that load it.
    let added = home.run(["plugin", "add", "../foreign/finder", "--grant"]);
    assert_eq!(added.status, 0, "{}", added.text());
    home.write("work/a.txt", "needle\n");
    let found = home.run(["plugin", "call", "search_text", "{\"pattern\":\"needle\"}"]);
    assert!(found.stdout.contains("a.txt"), "{}", found.text());

    // Another component under the same name is refused.
    for folder in ["foreign/finder", "config/plugins/finder"] {
        std::fs::copy(plugins().join("files/plugin.wasm"), home.path(folder).join("plugin.wasm")).unwrap();
    }
    let changed = home.run(["plugin", "list"]);
    assert!(changed.stderr.contains("plugin `finder` changed"), "{}", changed.text());
    assert!(!changed.stdout.contains("finder"), "{}", changed.text());
}

#[test]
fn a_foreign_plugin_does_not_take_a_first_party_name() {
    let home = Home::new();
    let folder = home.path("foreign/files");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(plugins().join("search/plugin.wasm"), folder.join("plugin.wasm")).unwrap();
    std::fs::copy(plugins().join("files/plugin.toml"), folder.join("plugin.toml")).unwrap();
    let added = home.run(["plugin", "add", "../foreign/files", "--grant"]);
    assert_eq!(added.status, 1, "{}", added.text());
    assert!(added.stderr.contains("`files` is the name of a first-party plugin"), "{}", added.text());
    assert!(!home.path("config/policy.toml").exists() && !home.path("config/plugins").exists());
}

#[test]
fn adding_a_rebuilt_plugin_replaces_its_digest_and_never_widens_its_grant() {
    let home = Home::new();
    let rebuild = |component: &str, manifest: &str| {
        let text = std::fs::read_to_string(plugins().join(manifest).join("plugin.toml")).unwrap();
        let text = text.replace(&format!("name = \"{manifest}\""), "name = \"finder\"");
        home.write("finder/plugin.toml", &text);
        let wasm = plugins().join(component).join("plugin.wasm");
        std::fs::copy(wasm, home.path("finder/plugin.wasm")).unwrap();
    };
    home.write("config/hames.toml", "[plugins]\ndisabled = [\"search\", \"files\"]\n");
    rebuild("search", "search");
    let unlisted = home.run(["plugin", "inspect", "../finder"]);
    assert!(unlisted.stderr.contains("hames plugin add"), "{}", unlisted.text());
    assert_eq!(home.run(["plugin", "add", "../finder", "--grant"]).status, 0);
    let first = home.read("config/policy.toml");

    // The same asks, another component: refused without the flag, and what works goes on working.
    rebuild("http-fetch", "search");
    let refused = home.run(["plugin", "add", "../finder"]);
    assert_eq!(refused.status, 1, "{}", refused.text());
    assert!(refused.stderr.contains("--grant`, or replace the digest line"), "{}", refused.text());
    assert_eq!(home.run(["plugin", "list"]).stderr, "");
    let replaced = home.run(["plugin", "add", "../finder", "--grant"]);
    assert_eq!(replaced.status, 0, "{}", replaced.text());
    let second = home.read("config/policy.toml");
    assert_ne!(first, second);
    let without_digest = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("digest"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_digest(&first), without_digest(&second));
    assert_eq!(home.run(["plugin", "list"]).stderr, "");

    // Asks for more (write access): nothing is changed.
    rebuild("files", "files");
    let wider = home.run(["plugin", "add", "../finder", "--grant"]);
    assert_eq!(wider.status, 1, "{}", wider.text());
    assert!(
        wider.stderr.contains("asks for more than it was granted: files `.` read and write"),
        "{}",
        wider.text()
    );
    assert_eq!(home.read("config/policy.toml"), second);
    assert_eq!(home.run(["plugin", "list"]).stderr, "");

    // Added from where it is kept, the files are not emptied.
    let again = home.run(["plugin", "add", "../config/plugins/finder", "--grant"]);
    assert_eq!(again.status, 0, "{}", again.text());
    assert_eq!(home.run(["plugin", "list"]).stderr, "");
}

#[test]
fn a_changed_first_party_plugin_is_not_loaded() {
    let home = Home::new();
    let bundle = home.path("bundle");
    std::fs::create_dir_all(bundle.join("files")).unwrap();
    std::fs::copy(plugins().join("bundle.toml"), bundle.join("bundle.toml")).unwrap();
    std::fs::copy(plugins().join("files/plugin.toml"), bundle.join("files/plugin.toml")).unwrap();
    std::fs::copy(plugins().join("search/plugin.wasm"), bundle.join("files/plugin.wasm")).unwrap();
    let mut command = home.command(["plugin", "list"]);
    command.env("HAMES_PLUGIN_DIR", &bundle);
    let ran = crate::program::ran(&mut command);
    assert!(!ran.stdout.contains("files"), "{}", ran.text());
    assert!(ran.stderr.contains("digest"), "{}", ran.text());
}

#[test]
fn the_action_budget_holds_over_runs() {
    let home = Home::new();
    home.write(
        "config/policy.toml",
        "[tools]\nwrite_file = \"allow\"\n[autonomy]\nmax_actions_per_hour = 2\n",
    );
    for (number, status) in [(1, 0), (2, 0), (3, 1)] {
        let arguments = format!("{{\"path\":\"{number}.txt\",\"content\":\"x\"}}");
        let ran = home.run(["plugin", "call", "write_file", &arguments]);
        assert_eq!(ran.status, status, "{}", ran.text());
        assert_eq!(home.path(&format!("work/{number}.txt")).exists(), status == 0);
    }
}

#[test]
fn the_variable_overrides_the_policys_action_budget() {
    let home = Home::new();
    home.write(
        "config/policy.toml",
        "[tools]\nwrite_file = \"allow\"\n[autonomy]\nmax_actions_per_hour = 9\n",
    );
    let call = r#"{ name = "write_file", arguments = { path = "a.txt", content = "x" } }"#;
    let recorded = home.recording(&format!(
        "[[exchange]]\nreply = {{ calls = [{call}, {call}] }}\n[[exchange]]\nreply = {{ text = \"done\" }}\n"
    ));
    let stamps = || home.read("state/actions").lines().count();
    let run = |max: &str| {
        let mut command = home.command(["run", &recorded, "write"]);
        crate::program::ran(command.env("HAMES_MAX_ACTIONS_PER_HOUR", max))
    };
    let ran = run("1");
    assert_eq!((ran.status, stamps()), (0, 1), "{}", ran.text());
    assert!(ran.stderr.contains("autonomy.max_actions_per_hour"), "{}", ran.text());
    // The refused call was not counted, and the one that ran still is, in the next process.
    run("1");
    assert_eq!(stamps(), 1);
    run("2");
    assert_eq!(stamps(), 2);
}
