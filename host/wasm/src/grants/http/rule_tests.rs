#![allow(clippy::unwrap_used, clippy::panic, reason = "test")]

use super::*;

fn target(url: &str) -> Result<Target, UrlError> {
    Target::of(&url.parse::<http::Uri>().map_err(|_| UrlError::Host(url.to_owned()))?)
}

fn covers(pattern: &str, url: &str) -> bool {
    let pattern = UrlPattern::parse(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
    target(url).is_ok_and(|target| pattern.covers(&target))
}

#[test]
fn spellings_of_a_host_are_one_or_refused() {
    let name = |text: &str| Ok(Host::Name(text.to_owned()));
    assert_eq!(Host::parse("EXAMPLE.com."), name("example.com"));
    assert_eq!(Host::parse("localhost."), name("localhost"));
    assert_eq!(Host::parse("xn--bcher-kva.example"), name("xn--bcher-kva.example"));
    let address = |text: &str| Ok(Host::Address(text.parse().unwrap()));
    assert_eq!(Host::parse("127.0.0.1"), address("127.0.0.1"));
    assert_eq!(Host::parse("127.0.0.1."), address("127.0.0.1"));
    assert_eq!(Host::parse("[::1]"), address("::1"));
    assert_eq!(Host::parse("[::ffff:127.0.0.1]"), address("127.0.0.1"));
    for bad in [
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0x7f.0.0.1",
        "127.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.01",
        "127.0.0.0x1",
        "1.2.3.4.5",
        "256.1.1.1",
        "a.b.1",
        "",
        ".",
        "a..b",
        "a.b..",
        "-%41",
        "bücher.example",
        "[::1",
        "::1",
        "[fe80::1%eth0]",
        "[fe80::1%25eth0]",
        "a b",
        "a\tb",
        "a/b",
        "a\\b",
        "*",
        "１２７.0.0.1",
        "0x",
        "a,b",
    ] {
        assert!(Host::parse(bad).is_err(), "{bad} gave {:?}", Host::parse(bad));
    }
}

#[test]
fn urls_with_tricks_in_the_authority_are_refused() {
    for bad in [
        "http://a@b/",
        "http://user:pass@example.com/",
        "http://example.com@127.0.0.1/",
        "http://example.com:0/",
        "http://example.com:99999/",
        "http://example.com:+80/",
        "ftp://example.com/",
        "ws://example.com/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://[::1]x/",
        "http://example.com:/",
    ] {
        assert!(target(bad).is_err(), "{bad} gave {:?}", target(bad));
    }
    let plain = target("HTTPS://Example.COM:443/a?b=c").unwrap();
    assert_eq!((plain.port, plain.authority(), plain.path.as_str()), (443, "example.com".to_owned(), "/a"));
    assert_eq!(target("http://example.com:8080").unwrap().authority(), "example.com:8080");
    assert_eq!(target("http://[::1]:8080/").unwrap().authority(), "[::1]:8080");
}

#[test]
fn rules_cover_what_they_say() {
    let yes = [
        ("https://example.com", "https://example.com/"),
        ("https://example.com", "https://EXAMPLE.com.:443/any/../thing"),
        ("https://example.com/v1", "https://example.com/v1"),
        ("https://example.com/v1", "https://example.com/v1/x?y"),
        ("https://example.com/v1/", "https://example.com/v1/x"),
        ("https://example.com/v1", "https://example.com/v1/a..b/...c/.d"),
        ("https://*.example.com", "https://a.b.example.com/"),
        ("http://*", "http://anything.example/"),
        ("http://localhost:8080", "http://localhost:8080/"),
        ("http://127.0.0.1", "http://[::ffff:127.0.0.1]/"),
    ];
    for (pattern, url) in yes {
        assert!(covers(pattern, url), "{pattern} should cover {url}");
    }
    let no = [
        ("https://example.com", "http://example.com/"),
        ("https://example.com", "https://example.com:8443/"),
        ("https://example.com", "https://www.example.com/"),
        ("https://example.com", "https://example.com.evil.net/"),
        ("https://example.com", "https://notexample.com/"),
        ("https://*.example.com", "https://example.com/"),
        ("https://*.example.com", "https://evilexample.com/"),
        ("https://*.example.com", "https://127.0.0.1/"),
        ("https://example.com/v1", "https://example.com/v10"),
        ("https://example.com/v1/", "https://example.com/v1"),
        ("https://example.com/v1", "https://example.com/"),
        ("https://example.com/v1", "https://example.com//v1"),
        ("https://example.com/v1", "https://example.com/V1"),
        ("https://example.com/v1", "https://example.com/v1/../admin"),
        ("https://example.com/v1", "https://example.com/v1/./x"),
        ("https://example.com/v1", "https://example.com/v1/%2e%2e/admin"),
        ("https://example.com/v1", "https://example.com/v1/.%2E/admin"),
        ("https://example.com/v1", "https://example.com/v1/%252e%252e/admin"),
        ("https://example.com/v1", "https://example.com/v1/%25252e%25252e%25252fadmin"),
        ("https://example.com/v1", "https://example.com/v1/x%2f..%2fadmin"),
        ("https://example.com/v1", "https://example.com/v1/x%5c..%5c..%5cadmin"),
        ("https://example.com/v1", "https://example.com/v1/..;x=1/admin"),
        ("https://example.com/v1", "https://example.com/v1/..%00/admin"),
    ];
    for (pattern, url) in no {
        assert!(!covers(pattern, url), "{pattern} must not cover {url}");
    }
}

#[test]
fn patterns_that_mean_something_else_are_errors() {
    for bad in [
        "example.com",
        "https//example.com",
        "ftp://example.com",
        "https://",
        "https:///v1",
        "https://a@b",
        "https://a.*.com",
        "https://*example.com",
        "https://*.",
        "https://*.1.2.3.4",
        "https://a:0",
        "https://a:*:80",
        "https://a:**",
        "https://a/v1?x",
        "https://a/v1#x",
        "https://a/*",
        "https://a/../b",
        "https://a/%76",
        "https://a//b",
        "https://0x7f.1",
        "https://a/b c",
        "https://a/ü",
    ] {
        assert!(UrlPattern::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn patterns_print_as_they_parse() {
    for text in ["https://example.com/", "http://*.example.com:8080/v1/", "https://*/", "http://[::1]:81/x"] {
        assert_eq!(UrlPattern::parse(text).unwrap().to_string(), text);
    }
}

#[test]
fn a_star_means_every_port() {
    assert!(covers("http://*:*", "http://example.com:8080/x"));
    assert!(covers("http://*:*", "http://example.com/"));
    assert!(!covers("http://*:*", "https://example.com/"));
    assert!(!covers("http://*", "http://example.com:8080/"));
    assert!(UrlPattern::parse("http://a:80:*").is_err());
    let both = |a: &str, b: &str| {
        let (a, b) = (UrlPattern::parse(a).unwrap(), UrlPattern::parse(b).unwrap());
        a.intersect(&b).map(|pattern| pattern.to_string())
    };
    assert_eq!(both("http://*:*", "http://a.example:8080/v1").as_deref(), Some("http://a.example:8080/v1"));
    assert_eq!(both("http://*:*", "http://a.example").as_deref(), Some("http://a.example/"));
    assert_eq!(both("http://*:*", "http://*.example:*").as_deref(), Some("http://*.example:*/"));
    assert_eq!(both("http://*:8080", "http://*:8081"), None);
}
