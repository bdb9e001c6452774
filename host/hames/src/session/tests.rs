//! Transcripts on disk: whole, torn, damaged, locked; the ports kept on disk.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test")]

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use hames_core::gate::{ACTION_WINDOW_MS, ActionWindow};
use hames_core::types::{Message, TurnEnd, TurnId};

use super::*;
use crate::clock::SystemClock;

fn store() -> (tempfile::TempDir, SessionStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = SessionStore::new(dir.path().join("sessions"), Arc::new(SystemClock));
    (dir, store)
}

fn begun(store: &SessionStore) -> FileTranscript {
    let transcript = store.create().unwrap();
    transcript.begin(BTreeMap::new()).unwrap();
    transcript
}

fn say(transcript: &FileTranscript, text: &str) {
    let message = Message::user(text);
    transcript.append(None, Record::Message { message }).unwrap();
}

#[test]
fn writes_numbered_lines_and_reads_them_back() {
    let (_dir, store) = store();
    let transcript = begun(&store);
    let id = transcript.session_id().clone();
    let turn = TurnId::new("t1");
    // Line separators that are not `\n` are text.
    say(&transcript, "one\u{2028}two\u{85}three\r\nfour");
    let started = Record::TurnStarted {
        provider: "p".into(),
        model: "m".into(),
        dialect: hames_core::types::DialectKind::Native,
    };
    transcript.append(Some(&turn), started).unwrap();
    let end = Record::TurnEnded { end: TurnEnd::Completed { text: "done".into() } };
    transcript.append(Some(&turn), end.clone()).unwrap();
    let mode = std::fs::metadata(transcript.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::metadata(store.folder()).unwrap().permissions().mode() & 0o777, 0o700);
    drop(transcript);

    let resumed = store.resume(id.as_str()).unwrap();
    assert!(resumed.warnings.is_empty());
    assert_eq!(resumed.entries.iter().map(|entry| entry.n).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(resumed.entries[3].record, end);
    let Record::Message { message: Message::User { text, .. } } = &resumed.entries[1].record else {
        panic!()
    };
    assert_eq!(text, "one\u{2028}two\u{85}three\r\nfour");

    let list = store.list().unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!((list[0].turns, list[0].last_end.as_deref()), (1, Some("completed")));
    assert_eq!(list[0].first_line, "one\u{2028}two\u{85}three");
}

#[test]
fn a_torn_last_line_is_dropped_at_every_cut_and_nothing_else() {
    let (_dir, store) = store();
    let transcript = begun(&store);
    let id = transcript.session_id().to_string();
    let path = transcript.path().to_owned();
    say(&transcript, "kept");
    let kept = std::fs::metadata(&path).unwrap().len();
    say(&transcript, "läst");
    drop(transcript);
    let whole = std::fs::read(&path).unwrap();
    for cut in usize::try_from(kept).unwrap()..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let resumed = store.resume(&id).unwrap();
        let is_torn = cut > usize::try_from(kept).unwrap() && cut < whole.len() - 1;
        assert_eq!(resumed.warnings.len(), usize::from(is_torn), "cut at {cut}");
        let expected = if cut >= whole.len() - 1 { 3 } else { 2 };
        assert_eq!(resumed.entries.len(), expected, "cut at {cut}");
        say(&resumed.transcript, "next");
        drop(resumed);
        let entries = store.entries(&id).unwrap();
        let numbers: Vec<u64> = entries.iter().map(|entry| entry.n).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "cut at {cut}");
    }
}

#[test]
fn an_empty_file_becomes_a_session() {
    let (_dir, store) = store();
    make_private_dir(store.folder()).unwrap();
    std::fs::write(store.folder().join("20260101-000000-aa.jsonl"), "").unwrap();
    let resumed = store.resume("20260101-000000-aa").unwrap();
    say(&resumed.transcript, "hello");
    drop(resumed);
    assert_eq!(store.entries("20260101-000000-aa").unwrap().len(), 2);
}

#[test]
fn a_damaged_line_is_an_error_and_changes_nothing() {
    let (_dir, store) = store();
    let transcript = begun(&store);
    let (id, path) = (transcript.session_id().to_string(), transcript.path().to_owned());
    drop(transcript);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"n\":2}\n").unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = store.resume(&id).err().unwrap();
    assert!(error.to_string().contains("line 2 is not an entry"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_second_writer_is_refused_by_name() {
    let (_dir, store) = store();
    let transcript = begun(&store);
    let id = transcript.session_id().to_string();
    let error = store.resume(&id).err().unwrap();
    assert_eq!(error.to_string(), format!("session `{id}` is in use by process {}", std::process::id()));
    // Reading does not need the lock.
    assert_eq!(store.entries(&id).unwrap().len(), 1);
    drop(transcript);
    assert!(store.resume(&id).is_ok());
}

#[test]
fn unknown_ids_and_versions_are_refused() {
    let (_dir, store) = store();
    let id = begun(&store).session_id().to_string();
    let error = store.resume("../etc/passwd").err().unwrap();
    assert!(matches!(error, SessionError::BadId { .. }));
    let mut other = id.clone();
    other.pop();
    let SessionError::NotFound { nearest, .. } = store.resume(&other).err().unwrap() else { panic!() };
    assert_eq!(nearest, std::slice::from_ref(&id));
    let path = store.folder().join(format!("{id}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap().replace("\"version\":1", "\"version\":9");
    std::fs::write(&path, text).unwrap();
    assert!(matches!(store.resume(&id).err().unwrap(), SessionError::Version { found: 9, .. }));
}

#[test]
fn the_hour_survives_a_restart_and_is_shared() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state/actions");
    let window = FileActionWindow::new(&path);
    assert_eq!(window.free_at_ms(0, 2).unwrap(), None);
    assert_eq!(window.take(1_000, 2).unwrap(), None);
    let other = FileActionWindow::new(&path);
    assert_eq!(other.take(2_000, 2).unwrap(), None);
    assert_eq!(window.take(3_000, 2).unwrap(), Some(1_000 + ACTION_WINDOW_MS));
    assert_eq!(other.free_at_ms(ACTION_WINDOW_MS + 1_000, 2).unwrap(), None);
    assert_eq!(other.take(ACTION_WINDOW_MS + 1_000, 2).unwrap(), None);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("2000\n{}\n", ACTION_WINDOW_MS + 1_000));
    // What cannot be read cannot be counted.
    std::fs::write(&path, "many\n").unwrap();
    assert!(window.take(0, 2).is_err());
}

#[test]
fn an_absurd_entry_number_is_no_crash() {
    let (_dir, store) = store();
    let transcript = begun(&store);
    let (id, path) = (transcript.session_id().to_string(), transcript.path().to_owned());
    drop(transcript);
    let line = format!("{{\"n\":{},\"time_ms\":1,\"record\":\"note\",\"text\":\"x\"}}\n{{\"torn", u64::MAX);
    OpenOptions::new().append(true).open(&path).unwrap().write_all(line.as_bytes()).unwrap();
    let resumed = store.resume(&id).unwrap();
    assert!(hames_core::context::restore(resumed.entries).is_err(), "the gap is told");
}

#[test]
fn the_ports_keep_their_contracts() {
    let (dir, store) = store();
    let transcript = store.create().unwrap();
    let id = transcript.session_id().to_string();
    hames_testkit::contract::transcript(&transcript, || store.entries(&id).unwrap());
    hames_testkit::contract::result_store(&FileResultStore::new(dir.path().join("results")));
    hames_testkit::contract::action_window(&FileActionWindow::new(dir.path().join("actions")));
}

#[test]
fn a_transcript_under_another_name_is_not_gone_on_with() {
    let (_dir, store) = store();
    let session_id = SessionId::new("../other");
    let header = Record::Session { version: TRANSCRIPT_VERSION, session_id, facts: BTreeMap::new() };
    let transcript = store.create().unwrap();
    transcript.append(None, header).unwrap();
    let id = transcript.session_id().to_string();
    drop(transcript);
    let error = store.resume(&id).err().unwrap();
    assert!(error.to_string().contains("is damaged: it is the transcript of session `../other`"), "{error}");
    assert_eq!(store.entries(&id).unwrap().len(), 1, "it can still be looked at");
}
