#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

use hames_core::gate::FsMode;
use proptest::prelude::*;

use super::*;
use crate::grants::http::HttpRule;
use crate::grants::http::test_target;

fn fs(path: &str, mode: FsMode) -> FsCapability {
    FsCapability { path: path.to_owned(), mode, reason: Some("why".to_owned()) }
}

fn http(url: &str, methods: &[&str], private: bool) -> HttpCapability {
    let methods = methods.iter().map(|method| (*method).to_owned()).collect();
    HttpCapability { url: url.to_owned(), methods, private, reason: None }
}

fn both_fs(ask: FsCapability, grant: FsCapability) -> Vec<(String, FsMode)> {
    let side = |capability| Capabilities { fs: vec![capability], ..Capabilities::default() };
    intersect(&side(ask), &side(grant)).fs.into_iter().map(|fs| (fs.path, fs.mode)).collect()
}

fn both_http(ask: HttpCapability, grant: HttpCapability) -> Vec<HttpCapability> {
    let side = |capability| Capabilities { http: vec![capability], ..Capabilities::default() };
    intersect(&side(ask), &side(grant)).http
}

#[test]
fn folders_take_the_narrower_path_and_mode() {
    use FsMode::{ReadOnly, ReadWrite};
    let found = |path: &str, mode| vec![(path.to_owned(), mode)];
    assert_eq!(both_fs(fs(".", ReadWrite), fs("src", ReadOnly)), found("src", ReadOnly));
    assert_eq!(both_fs(fs("src/a", ReadOnly), fs("./src/", ReadWrite)), found("src/a", ReadOnly));
    assert_eq!(both_fs(fs("./", ReadWrite), fs(".", ReadWrite)), found(".", ReadWrite));
    assert_eq!(both_fs(fs("src", ReadWrite), fs("src2", ReadWrite)), []);
    assert_eq!(both_fs(fs("../x", ReadWrite), fs(".", ReadWrite)), []);
    assert_eq!(both_fs(fs("src/../..", ReadWrite), fs(".", ReadWrite)), []);
    assert_eq!(both_fs(fs("/etc", ReadOnly), fs(".", ReadOnly)), []);
    assert_eq!(both_fs(fs("", ReadOnly), fs(".", ReadOnly)), []);
}

#[test]
fn urls_take_the_narrower_side_of_each_part() {
    let wide = http("https://*", &["GET", "POST"], true);
    let narrow = http("https://api.example.com/v1", &[], true);
    let found = both_http(narrow.clone(), wide.clone());
    assert_eq!(found, [http("https://api.example.com/v1", &["GET"], true)]);
    // `private` is the grant's word alone.
    let found = both_http(wide, HttpCapability { private: false, ..narrow });
    assert_eq!(found, [http("https://api.example.com/v1", &["GET"], false)]);
    let found = both_http(
        http("https://*.example.com/v1", &[], false),
        http("https://*.api.example.com", &[], false),
    );
    assert_eq!(found[0].url, "https://*.api.example.com/v1");
    for (ask, grant) in [
        (http("https://a.com", &[], false), http("http://a.com", &[], false)),
        (http("https://a.com", &[], false), http("https://a.com:8443", &[], false)),
        (http("https://a.com", &[], false), http("https://*.a.com", &[], false)),
        (http("https://a.com/x", &[], false), http("https://a.com/y", &[], false)),
        (http("https://a.com", &["POST"], false), http("https://a.com", &[], false)),
        (http("a.com", &[], false), http("https://*", &[], false)),
    ] {
        assert_eq!(both_http(ask, grant), []);
    }
}

#[test]
fn the_rest_needs_both_sides() {
    let secret = |hosts: &[&str]| SecretCapability {
        name: "token".to_owned(),
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        reason: None,
    };
    let env = |name: &str| EnvCapability { name: name.to_owned(), reason: None };
    let ask = Capabilities {
        env: vec![env("A"), env("B")],
        secret: vec![secret(&["api.example.com", "other.com"])],
        clock: true,
        store: Some(StoreCapability { max_bytes: 100 }),
        ..Capabilities::default()
    };
    let grant = Capabilities {
        env: vec![env("B"), env("C")],
        secret: vec![secret(&["*.example.com"])],
        clock: true,
        random: true,
        store: Some(StoreCapability { max_bytes: 50 }),
        ..Capabilities::default()
    };
    let both = intersect(&ask, &grant);
    assert_eq!(both.env, [env("B")]);
    assert_eq!(both.secret, [secret(&["api.example.com"])]);
    assert!(both.clock && !both.random);
    assert_eq!(both.store, Some(StoreCapability { max_bytes: 50 }));
    assert_eq!(intersect(&ask, &Capabilities::default()), Capabilities::default());
    assert_eq!(intersect(&Capabilities::default(), &grant), Capabilities::default());
}

fn any_fs() -> impl Strategy<Value = FsCapability> {
    let path =
        prop::sample::select(vec![".", "a", "a/b", "a/b/c", "ab", "./a", "a/", "..", "a/..", "/a", ""]);
    (path, any::<bool>())
        .prop_map(|(path, rw)| fs(path, if rw { FsMode::ReadWrite } else { FsMode::ReadOnly }))
}

fn any_http() -> impl Strategy<Value = HttpCapability> {
    let scheme = prop::sample::select(vec!["http", "https", "ftp"]);
    let host = prop::sample::select(vec![
        "*",
        "*.x.com",
        "*.a.x.com",
        "x.com",
        "a.x.com",
        "b.a.x.com",
        "127.0.0.1",
        "0x7f.1",
    ]);
    let port = prop::sample::select(vec!["", ":443", ":8080"]);
    let path = prop::sample::select(vec!["", "/", "/v1", "/v1/", "/v1/a", "/v2", "/v1/.."]);
    let methods = prop::sample::subsequence(vec!["GET", "POST", "DELETE"], 0..3);
    (scheme, host, port, path, methods, any::<bool>()).prop_map(
        |(scheme, host, port, path, methods, private)| {
            http(&format!("{scheme}://{host}{port}{path}"), &methods, private)
        },
    )
}

fn any_capabilities() -> impl Strategy<Value = Capabilities> {
    let fs = prop::collection::vec(any_fs(), 0..4);
    let http = prop::collection::vec(any_http(), 0..4);
    (fs, http, any::<bool>(), any::<bool>()).prop_map(|(fs, http, clock, random)| Capabilities {
        fs,
        http,
        clock,
        random,
        ..Capabilities::default()
    })
}

/// Whether a file may be used so; as the preopens decide it.
fn fs_allows(capabilities: &Capabilities, file: &str, mode: FsMode) -> bool {
    capabilities
        .fs
        .iter()
        .any(|fs| fs.mode >= mode && plain_path(&fs.path).is_some_and(|path| contains(&path, file)))
}

/// Whether a request may be sent, and whether to a private address; as the guard decides it.
fn http_allows(capabilities: &Capabilities, method: &str, url: &str, private: bool) -> bool {
    capabilities
        .http
        .iter()
        .filter_map(|http| HttpRule::parse(http).ok())
        .any(|rule| rule.allows(method, &test_target(url), private))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn an_intersection_allows_exactly_what_both_allow(ask in any_capabilities(), grant in any_capabilities()) {
        let both = intersect(&ask, &grant);
        for file in ["f", "a/f", "a/b/f", "a/b/c/f", "ab/f"] {
            for mode in [FsMode::ReadOnly, FsMode::ReadWrite] {
                let expected = fs_allows(&ask, file, mode) && fs_allows(&grant, file, mode);
                prop_assert_eq!(fs_allows(&both, file, mode), expected, "{} {:?}", file, mode);
            }
        }
        let urls = ["https://x.com/", "https://a.x.com/v1", "https://b.a.x.com/v1/a/z", "https://a.x.com:8080/v1/",
                    "http://a.x.com/v1", "http://127.0.0.1/v2", "https://b.a.x.com/v1/../v2", "https://z.net/v1/a"];
        for url in urls {
            for method in ["GET", "HEAD", "POST", "DELETE"] {
                let expected = http_allows(&ask, method, url, false) && http_allows(&grant, method, url, false);
                prop_assert_eq!(http_allows(&both, method, url, false), expected, "{} {}", method, url);
                prop_assert!(!http_allows(&both, method, url, true) || http_allows(&grant, method, url, true));
            }
        }
        prop_assert_eq!((both.clock, both.random), (ask.clock && grant.clock, ask.random && grant.random));
        // Doing it again changes nothing.
        let again = intersect(&both, &grant);
        for url in urls {
            prop_assert_eq!(http_allows(&again, "GET", url, true), http_allows(&both, "GET", url, true));
        }
    }
}
