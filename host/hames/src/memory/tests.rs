//! The file of memories: the contract, what it looks like on disk, what breaks it.

#![allow(clippy::unwrap_used, reason = "test")]

use std::os::unix::fs::PermissionsExt;

use hames_core::results::chain;
use hames_testkit::contract;
use proptest::prelude::*;

use super::*;

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("state/memory.sqlite3")
    }

    fn memory(&self) -> SqliteMemory {
        SqliteMemory::new(self.path())
    }
}

fn new(source: &str, text: &str, time_ms: u64) -> NewMemory {
    NewMemory { source: source.to_owned(), text: text.to_owned(), time_ms }
}

async fn found(memory: &SqliteMemory, query: &str) -> Vec<String> {
    memory.search(query, 10).await.unwrap().into_iter().map(|citation| citation.snippet).collect()
}

#[tokio::test]
async fn it_keeps_the_contract() {
    contract::memory(&Place::new().memory()).await;
}

#[tokio::test]
async fn reading_makes_nothing_and_writing_makes_it_private() {
    let place = Place::new();
    let memory = place.memory();
    assert_eq!(memory.search("oats", 5).await.unwrap(), []);
    assert_eq!(memory.list(5).await.unwrap(), []);
    assert!(!memory.forget("m1").await.unwrap());
    assert_eq!(memory.count().await.unwrap(), 0);
    assert!(!place.path().parent().unwrap().exists());

    memory.add(new("user", "The horse eats oats.", 1)).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.path()), 0o600);
    assert_eq!(mode(&place.path().with_extension("sqlite3-wal")), 0o600);
    assert_eq!(mode(place.path().parent().unwrap()), 0o700);
    // Another process, or a later one, sees the same.
    assert_eq!(found(&place.memory(), "oats").await, ["The horse eats oats."]);
    assert_eq!(place.memory().count().await.unwrap(), 1);
}

#[tokio::test]
async fn accents_case_endings_and_signs() {
    let memory = Place::new().memory();
    for (n, text) in
        (1..).zip(["Zürich is where I work.", "Deploys run on Friday.", "смешной кот", "I like 🐎!"])
    {
        memory.add(new("user", text, n)).await.unwrap();
    }
    assert_eq!(found(&memory, "ZURICH?").await, ["Zürich is where I work."]);
    assert_eq!(found(&memory, "zu\u{308}rich").await, ["Zürich is where I work."]);
    assert_eq!(found(&memory, "when do we deploy").await, ["Deploys run on Friday."]);
    assert_eq!(found(&memory, "КОТ").await, ["смешной кот"]);
    assert_eq!(found(&memory, "🐎").await, ["I like 🐎!"]);
    assert_eq!(found(&memory, "What is it that I do on Friday?").await, ["Deploys run on Friday."]);
}

#[tokio::test]
async fn a_long_memory_is_cited_where_it_matches() {
    let memory = Place::new().memory();
    let text = format!("{}The code word is heron. {}", "filler ".repeat(1000), "more ".repeat(1000));
    memory.add(new("user", &text, 1)).await.unwrap();
    let snippet = found(&memory, "code word heron").await.remove(0);
    assert!(
        snippet.contains("The code word is heron.") && snippet.len() < MAX_SNIPPET_BYTES + 10,
        "{snippet}"
    );
}

#[tokio::test]
async fn texts_and_their_number_are_capped() {
    let place = Place::new();
    let memory = SqliteMemory::holding_at_most(place.path(), 2);
    memory.add(new("user", &"x".repeat(MAX_MEMORY_BYTES), 1)).await.unwrap();
    let error = memory.add(new("user", &"x".repeat(MAX_MEMORY_BYTES + 1), 1)).await.unwrap_err();
    assert!(error.message.contains("16385 bytes"), "{error}");
    let kept = memory.add(new("user", "second", 2)).await.unwrap();
    let error = memory.add(new("user", "third", 3)).await.unwrap_err();
    assert_eq!(error.message, "there are 2 memories, no more are kept");
    assert_eq!(memory.add(new("user", "second", 4)).await.unwrap(), kept, "what is known needs no room");
    memory.forget(&kept.id).await.unwrap();
    memory.add(new("user", "third", 5)).await.unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_an_error_with_a_way_out() {
    let place = Place::new();
    std::fs::create_dir_all(place.path().parent().unwrap()).unwrap();
    std::fs::write(
        place.path(),
        "this is no database, it is a text that is long enough to be one".repeat(100),
    )
    .unwrap();
    let memory = place.memory();
    for error in [
        memory.search("oats", 5).await.unwrap_err(),
        memory.list(5).await.unwrap_err(),
        memory.forget("m1").await.unwrap_err(),
        memory.add(new("user", "x", 1)).await.unwrap_err(),
    ] {
        assert!(chain(&error).contains("file is not a database"), "{}", chain(&error));
        assert!(error.hint.unwrap().contains("move it away"));
    }
    // Damage in the middle of a real one.
    let place = Place::new();
    let memory = place.memory();
    for n in 0..200 {
        memory.add(new("user", &format!("memory number {n} {}", "oats ".repeat(100)), n)).await.unwrap();
    }
    drop(memory);
    let mut bytes = std::fs::read(place.path()).unwrap();
    let end = bytes.len();
    bytes.get_mut(4096..end).unwrap().fill(0xa5);
    std::fs::write(place.path(), bytes).unwrap();
    let memory = place.memory();
    let error = memory.search("oats", 5).await.unwrap_err();
    assert!(error.hint.as_ref().unwrap().contains("move it away"), "{error:?}");
}

#[tokio::test]
async fn a_newer_file_is_refused() {
    let place = Place::new();
    place.memory().add(new("user", "x", 1)).await.unwrap();
    Connection::open(place.path()).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let error = place.memory().list(1).await.unwrap_err();
    assert!(error.message.contains("are of version 2, this program knows 1"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_wait_for_each_other() {
    let place = Place::new();
    let tasks: Vec<_> = (0..8)
        .map(|writer| {
            let memory = place.memory();
            tokio::spawn(async move {
                for n in 0..20 {
                    memory.add(new("user", &format!("fact {n} of writer {writer}"), n)).await.unwrap();
                    memory.add(new("user", &format!("fact {n} of all"), n)).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(place.memory().count().await.unwrap(), 8 * 20 + 20);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_finds_itself_and_any_query_is_one(text in "\\PC{1,60}", query in "[\\PC\0\"*()^:-]{0,200}") {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let memory = Place::new().memory();
            memory.search(&query, 5).await.unwrap();
            if text.trim().is_empty() {
                return;
            }
            memory.add(new("user", &text, 1)).await.unwrap();
            memory.search(&query, 5).await.unwrap();
            let found = memory.search(&text, 5).await.unwrap();
            assert_eq!(found.len(), 1, "{text:?} finds itself");
        });
    }
}
