//! Fetches against an answerer in place of the network, as a host would ask for them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test")]

use super::*;
use hames_plugin::http::stand_in_for_test;
use std::cell::RefCell;
use std::rc::Rc;

fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
    Response {
        status,
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: body.as_bytes().to_vec(),
        is_truncated: false,
    }
}

/// Answers from a table of URLs and keeps what was asked.
fn serve(pages: Vec<(&'static str, Response)>) -> Rc<RefCell<Vec<Request>>> {
    let asked = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&asked);
    stand_in_for_test(move |request| {
        log.borrow_mut().push(request.clone());
        let page = pages.iter().find(|(url, _)| *url == request.url);
        page.map(|(_, response)| response.clone()).ok_or_else(|| Failure::denied(request.url.clone()))
    });
    asked
}

fn run(arguments: serde_json::Value) -> Result<String, Failure> {
    plugin::call("http_fetch", &arguments.to_string(), &Context::for_test("{}"))
        .map(|output| output.to_text())
}

const HTML: &str = "<html><head><title>T</title><style>p{}</style><script>evil()</script></head><body>\
    <h1>Head</h1><p>Some <b>text</b> with a <a href='/x'>link</a>.</p><ul><li>one</li></ul></body></html>";

#[test]
fn html_becomes_text_with_links() {
    serve(vec![("https://a.example/", answer(200, &[("content-type", "text/html; charset=utf-8")], HTML))]);
    let text = run(serde_json::json!({"url": "https://a.example/"})).unwrap();
    assert!(
        text.starts_with("200 https://a.example/\ncontent-type: text/html; charset=utf-8\n\n# Head"),
        "{text}"
    );
    assert!(text.contains("[link][1]") && text.contains("[1]: /x") && text.contains("* one"), "{text}");
    assert!(!text.contains("evil") && !text.contains("p{}"), "{text}");
    let raw = run(serde_json::json!({"url": "https://a.example/", "raw": true})).unwrap();
    assert!(raw.ends_with(HTML), "{raw}");
}

#[test]
fn json_and_errors_come_as_they_are() {
    serve(vec![(
        "https://a.example/api",
        answer(404, &[("content-type", "application/json")], "{\"a\": 1}"),
    )]);
    let text = run(serde_json::json!({"url": "https://a.example/api"})).unwrap();
    assert_eq!(text, "404 https://a.example/api\ncontent-type: application/json\n\n{\"a\": 1}");
}

#[test]
fn a_post_carries_body_and_headers() {
    let asked = serve(vec![("https://a.example/", answer(204, &[], ""))]);
    let text = run(
        serde_json::json!({"url": "https://a.example/", "body": "{}", "headers": {"Content-Type": "application/json"}}),
    );
    assert_eq!(text.unwrap(), "204 https://a.example/\n\n[no body]");
    let request = asked.borrow().first().cloned().unwrap();
    assert_eq!((request.method.as_str(), request.body.as_slice()), ("POST", b"{}".as_slice()));
    assert!(
        request.headers.iter().any(|(name, value)| name == "Content-Type" && value == "application/json")
    );
}

#[test]
fn redirects_are_followed_and_secrets_stay_with_their_server() {
    let asked = serve(vec![
        ("https://a.example/one/x", answer(302, &[("location", "../two?q=1")], "")),
        ("https://a.example/two?q=1", answer(307, &[("location", "//b.example/three")], "")),
        ("https://b.example/three", answer(200, &[("content-type", "text/plain")], "there")),
    ]);
    let text = run(serde_json::json!({"url": "https://a.example/one/x", "headers": {"Authorization": "s"}}))
        .unwrap();
    assert!(text.starts_with("200 https://b.example/three\n") && text.ends_with("\n\nthere"), "{text}");
    let has_secret: Vec<bool> = asked
        .borrow()
        .iter()
        .map(|request| request.headers.iter().any(|(name, _)| name == "Authorization"))
        .collect();
    assert_eq!(has_secret, [true, true, false]);
}

#[test]
fn a_redirected_post_becomes_a_get_unless_told_otherwise() {
    for (status, method) in [(303, "GET"), (301, "GET"), (308, "POST")] {
        let asked = serve(vec![
            ("https://a.example/", answer(status, &[("location", "/next")], "")),
            ("https://a.example/next", answer(200, &[], "")),
        ]);
        run(serde_json::json!({"url": "https://a.example/", "body": "x"})).unwrap();
        assert_eq!(asked.borrow().last().unwrap().method, method, "{status}");
    }
}

#[test]
fn a_redirect_to_what_is_not_granted_is_denied() {
    serve(vec![("https://a.example/", answer(302, &[("location", "http://169.254.169.254/")], ""))]);
    assert!(matches!(run(serde_json::json!({"url": "https://a.example/"})), Err(Failure::Denied(_))));
}

#[test]
fn endless_redirects_end() {
    let asked = serve(vec![("https://a.example/", answer(302, &[("location", "/")], ""))]);
    let failure = run(serde_json::json!({"url": "https://a.example/"})).unwrap_err();
    assert!(failure.to_string().contains("more than 5 redirects"), "{failure}");
    assert_eq!(asked.borrow().len(), 6);
}

#[test]
fn long_and_broken_bodies_are_marked() {
    let mut broken = answer(200, &[("content-type", "text/plain")], "abc");
    broken.is_truncated = true;
    serve(vec![
        ("https://a.example/long", answer(200, &[("content-type", "text/plain")], &"é".repeat(10))),
        ("https://a.example/broken", broken),
        ("https://a.example/image", answer(200, &[("content-type", "image/png")], "\u{1}")),
    ]);
    let text = run(serde_json::json!({"url": "https://a.example/long", "max_bytes": 5})).unwrap();
    assert!(text.ends_with("éé\n[cut here: 4 of 20 bytes; ask for more with max_bytes]"), "{text}");
    assert!(
        run(serde_json::json!({"url": "https://a.example/broken"}))
            .unwrap()
            .contains("this is not all of it")
    );
    assert!(
        run(serde_json::json!({"url": "https://a.example/image"}))
            .unwrap()
            .ends_with("[1 bytes of image/png, not text]")
    );
}

#[test]
fn statuses_that_mean_something_are_failures_of_their_kind() {
    serve(vec![
        ("https://a.example/busy", answer(429, &[("retry-after", "7")], "")),
        ("https://a.example/who", answer(401, &[], "")),
    ]);
    let busy = run(serde_json::json!({"url": "https://a.example/busy"})).unwrap_err();
    assert!(matches!(busy, Failure::Unavailable { retry_after_ms: Some(7000), .. }), "{busy}");
    assert!(matches!(
        run(serde_json::json!({"url": "https://a.example/who"})),
        Err(Failure::Unauthorized(_))
    ));
}

#[test]
fn arguments_that_make_no_sense_are_told() {
    for arguments in [
        serde_json::json!({"url": "example.org"}),
        serde_json::json!({"url": "https://a.example/", "method": "GET", "body": "x"}),
        serde_json::json!({"url": "https://a.example/", "method": "PUT"}),
        serde_json::json!({}),
    ] {
        assert!(matches!(run(arguments.clone()), Err(Failure::InvalidArguments(_))), "{arguments}");
    }
}
