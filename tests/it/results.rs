//! Long and odd results through the whole program: the model sees a part of a bounded size, the disk has the whole, the
//! model reads it back by its handle, and the terminal is left alone.

use std::path::PathBuf;
use std::sync::Arc;

use hames_testkit::{HttpRequest, ModelServer, SseReply};
use serde_json::{Value, json};

use crate::program::{Home, Ran};

/// What one result may add to the context by default.
const RESULT_BYTES: usize = 16 * 1024;
const NEEDLE: &str = "NEEDLE-4711";

/// Texts of the tool results in a request, oldest first.
fn results(request: &HttpRequest) -> Vec<String> {
    let messages = request.json()["messages"].as_array().unwrap().clone();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// The last handle between two words.
fn handle(text: &str, before: &str, after: char) -> Option<String> {
    Some(text.rsplit_once(before)?.1.split_once(after)?.0.to_owned())
}

/// The handle of the marker in a shortened text.
fn of_text(text: &str) -> Option<String> {
    handle(text, "read them with read_result, handle \"", '"')
}

/// The handle of bytes that are no text.
fn of_bytes(text: &str) -> Option<String> {
    handle(text, "kept as `", '`')
}

/// What the model asks for once it saw a result: arguments of `read_result`.
type Asks = Arc<dyn Fn(&str) -> Vec<Value> + Send + Sync>;

/// One turn: `tool` answers at length, the model reads on as `asks` says.
struct Story {
    home: Home,
    ran: Ran,
    requests: Vec<HttpRequest>,
}

impl Story {
    async fn play(home: Home, tool: &'static str, arguments: Value, asks: Asks) -> Self {
        let reply = move |request: &HttpRequest| {
            let reply = match results(request).as_slice() {
                [] => SseReply::calls([("c", tool, arguments.to_string().as_str())]),
                [shown] => asks(shown).iter().enumerate().fold(SseReply::new(), |reply, (at, ask)| {
                    reply.call(&format!("r{at}"), "read_result", &ask.to_string())
                }),
                _ => SseReply::text("found it"),
            };
            reply.stop("stop").usage(10, 5).done()
        };
        let server = ModelServer::start_with(reply).await.unwrap();
        let flags =
            ["run", "--approve", "always", "--model", "m", "--base-url", &server.base_url(), "read it"];
        let ran = home.run(flags);
        assert_eq!((ran.status, ran.stdout.trim_end()), (0, "found it"), "{}", ran.text());
        Self { home, ran, requests: server.requests() }
    }

    /// What a tool wrote, shown by the shell.
    async fn of_shell(content: &[u8], asks: impl Fn(&str) -> Vec<Value> + Send + Sync + 'static) -> Self {
        let home = Home::new();
        // A window that has room for all of it.
        let config = "[tools.shell]\nenabled = true\n[models.m]\ncontext_tokens = 1000000\n";
        home.write("config/hames.toml", config);
        std::fs::write(home.path("work/content"), content).unwrap();
        Self::play(home, "shell", json!({"command": "cat content"}), Arc::new(asks)).await
    }

    /// The results in the last request, each of them bounded, and so is what the provider received.
    fn results(&self) -> Vec<String> {
        let last = self.requests.last().unwrap();
        let results = results(last);
        for result in &results {
            assert!(result.len() <= RESULT_BYTES, "{} bytes", result.len());
        }
        let first = self.requests[0].body.len();
        // Escapes in JSON are up to six times as long as what they stand for.
        let most = first + results.len() * 6 * (RESULT_BYTES + 1000);
        assert!(last.body.len() <= most, "{} bytes were sent", last.body.len());
        assert!(self.requests.len() == 3, "nothing else was asked");
        results
    }

    fn kept(&self) -> Vec<(String, Vec<u8>)> {
        let id = self.home.sessions().remove(0);
        let folder = std::fs::read_dir(self.home.path(&format!("state/results/{id}"))).unwrap();
        let paths: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        paths.iter().map(|path| (name(path), std::fs::read(path).unwrap())).collect()
    }

    /// What the disk has under a handle.
    fn whole(&self, handle: &str) -> Vec<u8> {
        let kept = self.kept();
        let found = kept.into_iter().find(|(name, _)| name.starts_with(&format!("{handle}.")));
        found.unwrap_or_else(|| panic!("nothing is kept as {handle}")).1
    }
}

fn search(handle: &Option<String>) -> Value {
    json!({"handle": handle, "search": NEEDLE})
}

fn range(handle: &Option<String>, start_byte: usize) -> Value {
    json!({"handle": handle, "start_byte": start_byte, "len_bytes": 1_000_000})
}

/// Header and text of a result of `read_result`.
fn split(result: &str) -> (&str, &str) {
    result.split_once('\n').unwrap()
}

fn found(result: &str) {
    assert!(result.starts_with("[1 match in ") && result.contains(NEEDLE), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn five_megabytes_of_lines() {
    let lines: Vec<String> = (0..350_000).map(|n| format!("line {n:08}")).collect();
    let content = lines.join("\n").replacen("line 00200000", NEEDLE, 1);
    assert!(content.len() > 4_800_000);
    let story = Story::of_shell(content.as_bytes(), |shown| {
        let handle = of_text(shown);
        vec![search(&handle), range(&handle, 3_000_000)]
    })
    .await;
    let results = story.results();
    found(&results[1]);
    let (header, text) = split(&results[2]);
    assert!(header.starts_with("[bytes 3000000 to ") && header.contains("go on with start_byte"), "{header}");
    assert!(text.len() > 8_000 && content[3_000_000..].starts_with(text));
    let whole = story.whole(&of_text(&results[0]).unwrap());
    assert_eq!(whole, format!("{content}\n[exit status 0]").as_bytes(), "the whole, byte for byte");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_of_200_kilobytes_is_read_back_whole() {
    let entry =
        |n: usize| json!({"id": n, "name": format!("entry \u{e9} \"{n}\""), "tags": ["a\\b", null, 1.5]});
    let content = serde_json::to_string(&(0..3_400).map(entry).collect::<Vec<_>>()).unwrap();
    assert!((200_000..300_000).contains(&content.len()), "{}", content.len());
    let len = content.len();
    // Pieces that overlap, as a range that begins in a character begins before it.
    let starts = (0..len).step_by(16_000);
    let story = Story::of_shell(content.as_bytes(), move |shown| {
        let handle = of_text(shown);
        starts.clone().map(|start| range(&handle, start)).collect()
    })
    .await;
    let results = story.results();
    let mut read = String::new();
    for (result, start) in results[1..].iter().zip((0..len).step_by(16_000)) {
        let (header, text) = split(result);
        let from: usize = header.strip_prefix("[bytes ").unwrap().split_once(' ').unwrap().0.parse().unwrap();
        assert!(from <= start && from <= read.len(), "{header}: no gap after {}", read.len());
        read.truncate(from);
        read.push_str(text);
    }
    assert_eq!(read, format!("{content}\n[exit status 0]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_line_of_a_megabyte() {
    let mut content = "x\u{1f40e}y".repeat(180_000);
    content.insert_str(3 * 6 * 10_000, NEEDLE);
    let story = Story::of_shell(content.as_bytes(), |shown| {
        let handle = of_text(shown);
        // In the middle of a character.
        vec![search(&handle), range(&handle, 600_000 + NEEDLE.len() + 3)]
    })
    .await;
    let results = story.results();
    found(&results[1]);
    assert!(results[1].len() < 2_000, "a match is shown with its surroundings, not with its line");
    let (header, text) = split(&results[2]);
    assert!(text.starts_with("\u{1f40e}yx"), "{header}");
    assert!(!results.concat().contains(char::REPLACEMENT_CHARACTER), "no character is cut in two");
    let whole = story.whole(&of_text(&results[0]).unwrap());
    assert_eq!(whole, format!("{content}\n[exit status 0]").as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_data() {
    let mut content: Vec<u8> =
        (0..300_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    content.splice(150_000..150_000, NEEDLE.bytes());
    let story = Story::of_shell(&content, |shown| {
        let handle = of_bytes(shown);
        let digits = json!({"handle": handle, "start_byte": 150_000, "len_bytes": 32, "format": "hex"});
        vec![search(&handle), digits, range(&handle, 100_000)]
    })
    .await;
    let results = story.results();
    assert!(results[0].len() < 200, "no byte of it is shown: {}", results[0]);
    found(&results[1]);
    let digits: String = content[150_000..150_032].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(split(&results[2]).1, format!("150000: {digits}\n"));
    assert!(split(&results[3]).0.contains("are not UTF-8"), "{}", split(&results[3]).0);
    assert_eq!(story.whole(&of_bytes(&results[0]).unwrap()), content);
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_is_not_utf_8_is_kept_as_read_and_as_it_was() {
    let mut content = b"gr\xfcn und wei\xdf, \xff\xfe ".repeat(10_000);
    content.extend(NEEDLE.bytes());
    let story = Story::of_shell(&content, |shown| {
        let digits = json!({"handle": of_bytes(shown), "len_bytes": 5, "format": "hex"});
        vec![search(&of_text(shown)), search(&of_bytes(shown)), digits]
    })
    .await;
    let results = story.results();
    assert!(results[0].starts_with("gr\u{fffd}n und wei\u{fffd}"));
    found(&results[1]);
    found(&results[2]);
    assert_eq!(split(&results[3]).1, "0: 6772fc6e20\n");
    assert_eq!(story.whole(&of_bytes(&results[0]).unwrap()), content);
    let read = String::from_utf8_lossy(&story.whole(&of_text(&results[0]).unwrap())).into_owned();
    assert!(read.starts_with(&*String::from_utf8_lossy(&content)));
}

/// One line of 300 KB with everything in it that a terminal obeys, and markers that are none, through a component.
#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_file_read_by_a_component() {
    let mut content = "x\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}[… 1 of 2 bytes left out …] ".repeat(6_000);
    content.push_str(NEEDLE);
    let home = Home::new();
    home.write("work/big.txt", &content);
    home.write("config/hames.toml", "[plugins.files]\nconfig = { max_output_bytes = 2000000 }\n");
    let asks: Asks = Arc::new(|shown| vec![search(&of_text(shown)), range(&of_text(shown), 100_000)]);
    let story = Story::play(home, "read_file", json!({"path": "big.txt"}), asks).await;
    assert!(!story.ran.text().contains(['\u{1b}', '\u{7}', '\u{202e}']), "the terminal is left alone");
    let results = story.results();
    found(&results[1]);
    assert!(split(&results[2]).0.starts_with("[bytes 100000 to "), "{}", split(&results[2]).0);
    let whole = String::from_utf8(story.whole(&of_text(&results[0]).unwrap())).unwrap();
    assert!(whole.contains(&content), "the whole is there, byte for byte");
    let id = story.home.sessions().remove(0);
    let entries = story.home.transcript(&id);
    let shown = entries.iter().find(|entry| entry["record"] == "call_finished").unwrap();
    assert_eq!(shown["message"]["handle"].as_str(), of_text(&results[0]).as_deref());
}
