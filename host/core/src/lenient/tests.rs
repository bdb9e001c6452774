//! What is repaired, what is a fault, and that a fault says where.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "test")]

use serde_json::json;

use super::{Fault, object, read_first, read_whole};

#[test]
fn what_has_one_reading_is_read() {
    for (text, expected, repair) in [
        (r#"{"a": 1}"#, json!({"a": 1}), None),
        (" [1, -2.5e3, true, null, \"x\"] ", json!([1, -2.5e3, true, null, "x"]), None),
        (r#""\u00e9\ud83d\ude80\n\/\"""#, json!("é🚀\n/\""), None),
        (r#"{"id": 9007199254740993}"#, json!({"id": 9007199254740993_u64}), None),
        (r#"{"a": [1, 2, ], } "#, json!({"a": [1, 2]}), Some("trailing comma")),
        (r#"{"a": "x""#, json!({"a": "x"}), Some("closed brackets")),
        (r#"{"a": {"b": [true"#, json!({"a": {"b": [true]}}), Some("closed brackets")),
        (r#"{"a": 1}}"#, json!({"a": 1}), Some("one closing bracket")),
        (r#"{"a": True, "b": [False, None]}"#, json!({"a": true, "b": [false, null]}), Some("Python")),
        (
            r#"{'q': "it's", 'x': 'a "b" \'c\' \x41'}"#,
            json!({"q": "it's", "x": "a \"b\" 'c' A"}),
            Some("single-quoted"),
        ),
        ("{\"a\": \"x\ny\tz\"}", json!({"a": "x\ny\tz"}), Some("raw line breaks")),
        (r#"{"a": "it\'s"}"#, json!({"a": "it's"}), Some(r"`\'`")),
        ("{\"a\": 1, // one\n /* two */ \"b\": \"// no\"}", json!({"a": 1, "b": "// no"}), Some("comments")),
        ("```json\n{\"a\": \"```\"}\n```\n", json!({"a": "```"}), Some("Markdown")),
        ("\u{feff}{}\u{200b}", json!({}), None),
    ] {
        let reading = read_whole(text, true).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
        assert_eq!(reading.value, expected, "{text}");
        match repair {
            None => assert_eq!(reading.repairs, Vec::<String>::new(), "{text}"),
            Some(words) => {
                assert_eq!(reading.repairs.len(), 1, "{text}: {:?}", reading.repairs);
                assert!(reading.repairs[0].contains(words), "{text}: {:?}", reading.repairs);
            }
        }
    }
}

#[test]
fn what_would_be_a_guess_is_a_fault() {
    for text in [
        "",
        "   ",
        "{",
        "[",
        "{,}",
        "[,]",
        "{\"a\":1,,}",
        r#"{"a"#,
        r#"{"a": "#,
        r#"{"a": 1"#,
        r#"{"a": "x"#,
        r#"{"a": "x","#,
        r#"{"a""#,
        r#"{"a": tru"#,
        r#"{"a": 1]"#,
        r#"{"a": 1}}}"#,
        r#"{"a": 1}]"#,
        "{a: 1}",
        "path",
        "{} {}",
        "{}x",
        r#"{"a": 1, "a": 1}"#,
        r#"{"a": {"b": 1, "b": 2}}"#,
        r#"{"a": "say "hi""}"#,
        r#"{'a': 'it's'}"#,
        r#"{"a": "\d"}"#,
        r#"{"a": "\ud800"}"#,
        r#"{"a": 01}"#,
        r#"{"a": NaN}"#,
        r#"{"a": 123456789012345678901234}"#,
        "{\"a\" \"b\"}",
        r#"{"p": "<section class="hero">", "p": "/etc/passwd"}"#,
    ] {
        let fault = read_whole(text, true).expect_err(text);
        assert!(fault.message().contains("line 1 column"), "{text}: {fault:?}");
    }
}

#[test]
fn a_text_that_may_go_on_is_incomplete_at_every_point() {
    let text = r#"{"a": [1, "b\u00e9\n", true, {'c': None}], "d": -1.5}"#;
    for at in 0..text.len() {
        let Some(start) = text.get(..at) else { continue };
        let fault = read_first(start, false).expect_err(start);
        assert!(matches!(fault, Fault::Incomplete { .. }), "{start}: {fault:?}");
    }
    assert_eq!(read_first(&format!("{text}}} and more"), false).unwrap().end, text.len());
}

#[test]
fn depth_is_bounded() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read_whole(&deep(127), true).is_ok());
    assert!(read_whole(&deep(128), true).unwrap_err().message().contains("nested deeper"));
    assert!(read_whole(&"[".repeat(1_000_000), true).is_err());
}

#[test]
fn an_object_is_taken_out_of_a_string_of_json() {
    let mut repairs = Vec::new();
    let twice = json!(json!(json!({"command": "ls"}).to_string()).to_string());
    assert_eq!(json!(object(twice, &mut repairs).unwrap()), json!({"command": "ls"}));
    assert_eq!(repairs, ["took arguments out of a string of JSON"]);
    for value in [json!([]), json!(3), json!("ls"), json!("{\"a\": 1}{\"b\": 2}"), json!("{\"a\": \"x\"")] {
        assert!(object(value.clone(), &mut Vec::new()).is_err(), "{value}");
    }
}
