//! Money through the program: what a day and a session cost, and a cap that holds over processes.

use crate::program::Home;

/// Two calls without a charge, one with; the model's prices are the user's.
const CALLS: &str = r#"
[[exchange]]
[exchange.reply]
text = "Looking."
usage = { input_tokens = 3000, output_tokens = 200, cached_read_tokens = 1000, reasoning_tokens = 120 }
[[exchange.reply.calls]]
name = "read_file"
arguments = { path = "a.txt" }
[[exchange]]
reply = { text = "It says a.", usage = { input_tokens = 3200, output_tokens = 20, charged_microdollars = 1500 } }
[[exchange]]
reply = { text = "Again.", usage = { input_tokens = 3300, output_tokens = 4000 } }
"#;
const PRICES: &str = "[models.\"recorded\"]\ninput_usd_per_million = 0.5\noutput_usd_per_million = 1\n\
                      cached_read_usd_per_million = 0.05\n";

#[test]
fn a_day_and_a_session_are_told_call_by_call() {
    let home = Home::new();
    home.write("work/a.txt", "a\n");
    home.write("config/hames.toml", PRICES);
    let recorded = home.recording(CALLS);
    let mut text = home.run(["cost"]).text();
    assert_eq!(home.run(["run", &recorded, "look"]).status, 0);
    let id = home.sessions().remove(0);
    assert_eq!(home.run(["run", &recorded, "--session", &id, "again"]).status, 0);
    let limits = "[limits]\nmax_day_cost_microdollars = 1000000\nmax_session_cost_microdollars = 10000\n";
    home.write("config/hames.toml", &format!("{PRICES}{limits}"));
    for arguments in [
        vec!["cost"],
        vec!["cost", "--session", &id],
        vec!["cost", "--json"],
        vec!["cost", "--session", &id, "--json"],
        vec!["cost", "--days", "0"],
        vec!["cost", "--session", "nothing"],
    ] {
        text.push_str(&format!("$ hames {}\n{}\n", arguments.join(" "), home.run(&arguments).text()));
    }
    let mut settings = home.snapshots();
    settings.add_filter(r"\d{4}-\d\d-\d\d", "[day]");
    settings.add_filter(r#""(until|time)_ms":\d+"#, "\"${1}_ms\":[ms]");
    settings.bind(|| insta::assert_snapshot!("cost", text));
}

#[test]
fn a_days_cap_holds_over_processes_and_says_until_when() {
    let home = Home::new();
    // A reply may have 4,096 tokens: each call may cost a little over 4,096 micro-dollars.
    home.write("config/hames.toml", &format!("{PRICES}[limits]\nmax_day_cost_microdollars = 14000\n"));
    let spent =
        "[[exchange]]\nreply = { text = \"x\", usage = { input_tokens = 2000, output_tokens = 4000 } }\n";
    let recorded = home.recording(spent);
    let first = home.run(["run", &recorded, "one"]);
    assert_eq!(first.status, 0, "{}", first.text());
    let second = home.run(["run", &recorded, "two"]);
    assert_eq!(second.status, 0, "{}", second.text());
    let third = home.run(["run", &recorded, "three"]);
    assert_eq!((third.status, third.stdout.as_str()), (1, ""), "{}", third.text());
    let said = "error: halted: the day cost 10000 micro-dollars of `limits.max_day_cost_microdollars` = 14000 and the next \
                call may cost up to ";
    assert!(third.stderr.contains(said), "{}", third.text());
    assert!(
        third.stderr.contains(" 00:00 UTC\nhint: wait until then, or raise the limit"),
        "{}",
        third.text()
    );

    // A day that cannot be counted leaves no room, and without a cap it is only told.
    let file = std::fs::read_dir(home.path("state/spend")).unwrap().next().unwrap().unwrap().path();
    let book = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{book}nonsense\n")).unwrap();
    let raised = format!("{PRICES}[limits]\nmax_day_cost_microdollars = 900000000\n");
    home.write("config/hames.toml", &raised);
    let ran = home.run(["run", &recorded, "four"]);
    assert_eq!(ran.status, 1, "{}", ran.text());
    assert!(ran.stderr.contains("cannot understand line 5 of "), "{}", ran.text());
    let told = home.run(["cost"]);
    assert_eq!(told.status, 0, "{}", told.text());
    assert!(told.stdout.contains("the day cannot be counted"), "{}", told.text());
    home.write("config/hames.toml", PRICES);
    let ran = home.run(["run", &recorded, "five"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "x\n"), "{}", ran.text());
    assert!(ran.stderr.contains("the spend book: cannot understand line 5"), "{}", ran.text());
}
