//! What every memory must do.

use hames_core::memory::{Memory, MemoryEntry, NewMemory};

/// Queries that are syntax somewhere. Each is only text.
const HOSTILE: [&str; 16] = [
    "",
    " \n\t",
    "\"",
    "a\"b",
    "'; DROP TABLE memory; --",
    "AND OR NOT",
    "NEAR(a b, 2)",
    "text:oats",
    "-oats",
    "oats*",
    "^oats",
    "(((",
    "{a b} : c",
    "%_\\",
    "null \0 byte",
    "🐎👩‍👩‍👧 \u{202e}",
];

/// A memory keeps what it is given once per source, finds it by its words in any script, takes any query, and forgets for
/// good. `subject` must be empty.
pub async fn memory(subject: &dyn Memory) {
    assert_eq!(list(subject, 10).await, [], "an empty memory has nothing");
    assert_eq!(search(subject, "anything", 10).await, Vec::<String>::new(), "nothing is found in nothing");
    assert!(!forget(subject, "m1").await, "what is not there cannot be forgotten");

    let oats = add(subject, "user", "The grey horse eats oats.", 10).await;
    let hay = add(subject, "session-7", "The brown horse eats hay in winter.", 20).await;
    let tokyo = add(subject, "user", "東京は雨が多い", 30).await;
    let expected = ("user", "The grey horse eats oats.", 10);
    assert_eq!((oats.source.as_str(), oats.text.as_str(), oats.time_ms), expected, "kept as it was given");
    assert_eq!(add(subject, "user", "The grey horse eats oats.", 99).await, oats, "the same is kept once");
    let same = add(subject, "session-7", "The grey horse eats oats.", 40).await;
    assert_ne!(same.id, oats.id, "two sources are two memories");

    let newest_first = [&same, &tokyo, &hay, &oats].map(MemoryEntry::clone);
    assert_eq!(list(subject, 10).await, newest_first, "the newest comes first");
    assert_eq!(list(subject, 1).await, std::slice::from_ref(&same), "a limit holds");
    assert_eq!(list(subject, 0).await, [], "none is none");

    let found = search(subject, "what does the brown horse get in winter?", 10).await;
    assert_eq!(found.first(), Some(&hay.id), "the best match comes first");
    assert_eq!(search(subject, "OATS", 10).await, [same.id.clone(), oats.id.clone()], "of equals the newest");
    assert_eq!(search(subject, "oats", 1).await, std::slice::from_ref(&same.id), "a limit holds");
    assert_eq!(search(subject, "oats", 0).await, Vec::<String>::new(), "none is none");
    assert_eq!(
        search(subject, "明日の東京の天気は", 10).await,
        std::slice::from_ref(&tokyo.id),
        "without spaces too"
    );
    assert_eq!(search(subject, "雨", 10).await, std::slice::from_ref(&tokyo.id), "one character is a word");
    assert_eq!(search(subject, "zebra", 10).await, Vec::<String>::new(), "only what matches");
    for query in HOSTILE {
        search(subject, query, 10).await;
    }
    let long = "oats ".repeat(50_000);
    assert!(search(subject, &long, 10).await.contains(&oats.id), "a long query is a query");
    let citation = match subject.search("oats", 1).await {
        Ok(found) => found.into_iter().next(),
        Err(error) => super::fail("search", &error),
    };
    let cited = citation.map(|citation| (citation.source, citation.snippet, citation.time_ms));
    assert_eq!(
        cited,
        Some(("session-7".to_owned(), "The grey horse eats oats.".to_owned(), 40)),
        "a citation says whose words they are, and from when"
    );

    for text in ["", "  \n", &"x".repeat(1024 * 1024)] {
        let refused = subject.add(NewMemory { source: "user".to_owned(), text: text.to_owned(), time_ms: 1 });
        assert!(refused.await.is_err(), "a text of {} bytes is refused", text.len());
    }
    assert!(forget(subject, &oats.id).await, "what is there is forgotten");
    assert!(!forget(subject, &oats.id).await, "once");
    for foreign in ["", "m", "-1", "m99999999999999999999999", "' OR 1=1"] {
        assert!(!forget(subject, foreign).await, "`{foreign}` is no id");
    }
    assert_eq!(search(subject, "oats", 10).await, std::slice::from_ref(&same.id), "and not found again");
    assert_eq!(list(subject, 10).await, [same, tokyo, hay], "the others stay");
    let again = add(subject, "user", "The grey horse eats oats.", 50).await;
    assert_ne!(again.id, oats.id, "an id is never given twice");
}

async fn add(subject: &dyn Memory, source: &str, text: &str, time_ms: u64) -> MemoryEntry {
    match subject.add(NewMemory { source: source.to_owned(), text: text.to_owned(), time_ms }).await {
        Ok(entry) => entry,
        Err(error) => super::fail("add", &error),
    }
}

async fn search(subject: &dyn Memory, query: &str, limit: usize) -> Vec<String> {
    match subject.search(query, limit).await {
        Ok(found) => {
            assert!(found.is_sorted_by(|a, b| a.score >= b.score), "scores fall");
            found.into_iter().map(|citation| citation.id).collect()
        }
        Err(error) => super::fail(&format!("search for `{}`", query.escape_debug()), &error),
    }
}

async fn list(subject: &dyn Memory, limit: usize) -> Vec<MemoryEntry> {
    match subject.list(limit).await {
        Ok(entries) => entries,
        Err(error) => super::fail("list", &error),
    }
}

async fn forget(subject: &dyn Memory, id: &str) -> bool {
    match subject.forget(id).await {
        Ok(was_there) => was_there,
        Err(error) => super::fail("forget", &error),
    }
}
