//! Memory through the program: what the user writes is recalled for a later message, shown, and can be forgotten.

use hames_testkit::{ModelServer, SseReply};
use serde_json::{Value, json};

use crate::program::{Home, Ran};

fn data(ran: &Ran) -> Value {
    assert_eq!(ran.status, 0, "{}", ran.text());
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn memories_are_added_found_listed_and_forgotten() {
    let home = Home::new();
    assert_eq!(data(&home.run(["memory", "list", "--json"])), json!([]));
    assert_eq!(data(&home.run(["memory", "search", "--json", "horse"])), json!([]));
    assert!(!home.path("state").exists(), "looking makes nothing");

    let added = data(&home.run(["memory", "add", "--json", "The grey horse is called Juno.\n"]));
    assert_eq!((&added["id"], &added["source"]), (&json!("m1"), &json!("user")));
    assert_eq!(added["text"], "The grey horse is called Juno.");
    assert_eq!(home.run(["memory", "add", "Ulm is where I live."]).stdout, "m2\n");
    assert_eq!(home.run(["memory", "add", "Ulm is where I live."]).stdout, "m2\n", "once is enough");
    let listed = data(&home.run(["memory", "list", "--json"]));
    let ids: Vec<&Value> = listed.as_array().unwrap().iter().map(|entry| &entry["id"]).collect();
    assert_eq!(ids, ["m2", "m1"]);
    let found = data(&home.run(["memory", "search", "--json", "what is the horse's \"name\"?"]));
    assert_eq!((found.as_array().unwrap().len(), &found[0]["id"]), (1, &json!("m1")));
    let shown = home.run(["memory", "list", "--limit", "1"]);
    assert!(
        shown.stdout.starts_with("m2  ") && shown.stdout.ends_with("  user  Ulm is where I live.\n"),
        "{}",
        shown.text()
    );
    assert!(shown.stderr.contains("1 more"), "{}", shown.text());

    assert_eq!(home.run(["memory", "forget", "m1"]).status, 0);
    let again = home.run(["memory", "forget", "m1"]);
    assert_eq!(again.status, 1);
    assert!(
        again.stderr.contains("nothing is remembered as `m1`") && again.stderr.contains("hint: "),
        "{}",
        again.text()
    );
    let empty = home.run(["memory", "add", " "]);
    assert_eq!(empty.status, 1, "{}", empty.text());
}

#[test]
fn a_damaged_file_is_told_and_stops_no_turn() {
    let home = Home::new();
    home.write("state/memory.sqlite3", &"no database ".repeat(1000));
    let ran = home.run(["memory", "list"]);
    assert_eq!(ran.status, 2, "{}", ran.text());
    assert!(
        ran.stderr.contains("file is not a database") && ran.stderr.contains("hint: the file is damaged"),
        "{}",
        ran.text()
    );
    let recorded = home.recording("[[exchange]]\nreply = { text = \"yes\" }");
    let ran = home.run(["run", &recorded, "a question"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "yes\n"), "{}", ran.text());
    assert!(ran.stderr.contains("nothing is recalled from memory"), "{}", ran.text());
}

/// The texts of the user's messages in each request.
fn user_texts(server: &ModelServer) -> Vec<Vec<String>> {
    let of = |body: &Value| {
        let messages = body["messages"].as_array().unwrap().iter();
        let users = messages.filter(|message| message["role"] == "user");
        users.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    };
    server.requests().iter().map(|request| of(&request.json())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_remembered_reaches_the_model_with_its_message_and_only_there() {
    let replies = ["Juno.", "You are welcome.", "I do not know."].map(|text| SseReply::text(text).done());
    let server = ModelServer::start(replies).await.unwrap();
    let url = server.base_url();
    let home = Home::new();
    home.run(["memory", "add", "The grey horse is called Juno </memory>."]);
    let ask = |more: &[&str], text: &str| {
        let flags = ["run", "--model", "m", "--base-url", &url];
        home.run(flags.iter().chain(more).chain(&[text]))
    };
    let ran = ask(&[], "what is the name of the horse?");
    assert_eq!(ran.status, 0, "{}", ran.text());
    assert!(ran.stderr.contains("recalled m1 · user · The grey horse is called Juno"), "{}", ran.text());
    let id = home.sessions().remove(0);
    ask(&["--session", &id], "thanks");
    home.write("config/hames.toml", "[memory]\nrecall = 0\n");
    ask(&[], "what is the name of the horse?");

    let texts = user_texts(&server);
    let first = &texts[0][0];
    assert!(first.starts_with("what is the name of the horse?\n\n<memory>\n"), "{first}");
    assert!(
        first.contains("<note id=\"m1\" source=\"user\" date=\"") && first.contains("Juno &lt;/memory&gt;."),
        "{first}"
    );
    assert_eq!(
        texts[1],
        [first.as_str(), "thanks"],
        "a resumed session sends the same bytes, and nothing twice"
    );
    assert_eq!(texts[2], ["what is the name of the horse?"]);
}
