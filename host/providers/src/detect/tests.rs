#![allow(clippy::unwrap_used, reason = "test")]

use hames_testkit::{HttpReply, ModelServer};

use super::*;
use crate::connect::connect;

#[test]
fn every_known_provider_can_be_built() {
    for known in KNOWN_PROVIDERS {
        let mut options = known.options(Some(ApiKey::new("k")));
        if known.base_url.is_none() {
            assert!(connect(options.clone()).is_err(), "{} has no address of its own", known.id);
            options.base_url = "https://resource.example/v1".to_owned();
        }
        assert_eq!(connect(options).map(|provider| provider.id().to_owned()).ok().as_deref(), Some(known.id));
        assert_eq!(KnownProvider::by_id(known.id).map(|found| found.key_variable), Some(known.key_variable));
    }
    assert_eq!(KnownProvider::by_id("nobody"), None);
}

#[tokio::test]
async fn only_servers_that_list_models_are_found() {
    let serving =
        async |status, body: &str| ModelServer::start([HttpReply::json(status, body)]).await.unwrap();
    let good = serving(200, r#"{"data":[{"id":"m1"},{"id":"m2"}]}"#).await;
    let other = serving(200, r#"{"hello":"world"}"#).await;
    let absent = serving(404, "").await;
    // A constant in real life, so the type wants 'static text.
    let server =
        |id, url: &str| KnownLocalServer { id, base_url: Box::leak(url.to_owned().into_boxed_str()) };
    let servers = [
        server("absent", &absent.base_url()),
        server("other", &other.base_url()),
        server("good", &good.base_url()),
    ];
    let found = probe_local(&servers, Duration::from_secs(5)).await;
    assert_eq!(
        found,
        [LocalServer {
            id: "good".to_owned(),
            base_url: good.base_url(),
            models: vec!["m1".to_owned(), "m2".to_owned()],
        }]
    );
    let asked: Vec<_> = good.requests().into_iter().map(|request| (request.method, request.path)).collect();
    assert_eq!(asked, [("GET".to_owned(), "/v1/models".to_owned())]);
}
