//! The table of failures, each cell run over HTTP on loopback: kind × point of the reply × whether it is tried again, handed
//! over to the next candidate, or told.

use futures::future::join_all;
use hames::Harness;
use hames::core::provider::ProviderErrorKind as Kind;
use hames::core::types::{EventKind, TurnEnd, TurnLimits};
use hames::providers::Protocol;
use hames::providers::connect::{ProviderOptions, connect};
use hames_testkit::{HttpReply, ModelServer, Piece, SseReply};
use serde_json::json;

/// Attempts at one candidate.
const ATTEMPTS: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    /// Instead of a stream.
    Before,
    /// In the stream, before a word was shown.
    BeforeText,
    /// In the stream, after visible text.
    InText,
    /// After the reply was complete.
    After,
}

const POINTS: [Point; 4] = [Point::Before, Point::BeforeText, Point::InText, Point::After];

/// What the provider says, as a status and as an error in a stream.
fn stated(kind: Kind) -> Option<(u16, &'static str)> {
    match kind {
        Kind::Auth => Some((401, "invalid_api_key")),
        Kind::Quota => Some((402, "insufficient_quota")),
        Kind::RateLimited => Some((429, "rate_limit_exceeded")),
        Kind::Overloaded => Some((503, "overloaded")),
        Kind::ContextTooLong => Some((400, "context_length_exceeded")),
        Kind::InvalidRequest => Some((400, "bad_field")),
        Kind::Refused => Some((400, "content_filter")),
        Kind::Malformed => Some((400, "tool_use_failed")),
        // Nothing is said: the line breaks, or goes silent.
        Kind::Transport | Kind::TimedOut => None,
    }
}

const KINDS: [Kind; 10] = [
    Kind::Auth,
    Kind::Quota,
    Kind::RateLimited,
    Kind::Overloaded,
    Kind::ContextTooLong,
    Kind::InvalidRequest,
    Kind::Refused,
    Kind::Transport,
    Kind::TimedOut,
    Kind::Malformed,
];

fn failing(kind: Kind, point: Point) -> HttpReply {
    let begun = match point {
        Point::Before | Point::BeforeText => SseReply::new().delta(&json!({ "reasoning": "hm" })),
        Point::InText => SseReply::new().delta(&json!({ "content": "Half a " })),
        Point::After => SseReply::text("From the first."),
    };
    let silence = if kind == Kind::TimedOut { Piece::Stall } else { Piece::Cut };
    let Some((status, code)) = stated(kind) else {
        let reply = match point {
            Point::Before => HttpReply { pieces: Vec::new(), ..HttpReply::events("") },
            Point::BeforeText | Point::InText => begun.without_done(),
            Point::After => begun.done(),
        };
        return HttpReply { pieces: reply.pieces.into_iter().chain([silence]).collect(), ..reply };
    };
    let error = json!({ "error": { "message": format!("stated {code}"), "code": code, "status": status } });
    match point {
        Point::Before => HttpReply::json(status, &error.to_string()),
        Point::BeforeText | Point::InText => begun.event(&in_stream(kind, code).to_string()).without_done(),
        // What comes behind the end of a reply takes nothing back.
        Point::After => {
            let done = begun.done();
            let late = format!("data: {error}\n\n").into_bytes();
            HttpReply { pieces: done.pieces.into_iter().chain([Piece::Bytes(late)]).collect(), ..done }
        }
    }
}

/// An error in a stream has no status line: a number beside it says what it would have been, where words do not.
fn in_stream(kind: Kind, code: &str) -> serde_json::Value {
    let message = format!("stated {code}");
    match kind {
        Kind::InvalidRequest => json!({ "error": { "message": message, "code": 400 } }),
        _ => json!({ "error": { "message": message, "code": code } }),
    }
}

/// What must come of it: requests at the first, requests at the second.
fn expected(kind: Kind, point: Point) -> (usize, usize) {
    if point == Point::After {
        return (1, 0);
    }
    let attempts = if kind.is_retryable() { ATTEMPTS as usize } else { 1 };
    // What another provider may not have. The other one's window is no larger.
    let may_hand_over = !matches!(kind, Kind::InvalidRequest | Kind::Refused | Kind::ContextTooLong);
    (attempts, usize::from(may_hand_over && point != Point::InText))
}

async fn run(kind: Kind, point: Point) -> Result<(), String> {
    let first = ModelServer::start((0..4).map(|_| failing(kind, point))).await.unwrap();
    let second = ModelServer::start([SseReply::text("From the second.").done()]).await.unwrap();
    let provider = |id: &str, server: &ModelServer| {
        connect(ProviderOptions::new(Protocol::OpenAiChat, id, server.base_url())).unwrap()
    };
    let (workspace, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let limits = TurnLimits { max_attempts: ATTEMPTS, provider_idle_ms: 400, ..TurnLimits::default() };
    let harness = Harness::builder()
        .workspace(workspace.path())
        .state_dir(state.path())
        .provider(provider("first", &first), "big")
        .fallback(provider("second", &second), "small")
        .limits(limits)
        .build()
        .await
        .unwrap();
    let session = harness.session().unwrap();
    let mut turn = session.run("Say something.").await;
    let (mut shown, mut changes) = (String::new(), 0);
    while let Some(event) = turn.next_event().await {
        match &event.kind {
            EventKind::TextDelta { text } => shown.push_str(text),
            EventKind::Rerouted { .. } => changes += 1,
            _ => {}
        }
    }
    let end = turn.end().await.unwrap();
    let asked = (first.requests().len(), second.requests().len());
    let wanted = expected(kind, point);
    if asked != wanted {
        return Err(format!("{kind:?} {point:?}: asked {asked:?}, not {wanted:?}: {end:?}"));
    }
    let is_right = match (point, wanted.1) {
        (Point::After, _) => end == TurnEnd::Completed { text: "From the first.".to_owned() },
        (_, 1) => end == TurnEnd::Completed { text: "From the second.".to_owned() } && changes == 1,
        // Told, and what was shown is kept.
        (_, _) => {
            let kept = if point == Point::InText { "Half a " } else { "" };
            matches!(&end, TurnEnd::Failed { text, .. } if text == kept)
                && shown.ends_with(kept)
                && changes == 0
        }
    };
    if is_right { Ok(()) } else { Err(format!("{kind:?} {point:?}: {end:?}, {changes} changes, {shown:?}")) }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failure_at_every_point_comes_to_what_the_table_says() {
    let cells = KINDS.iter().flat_map(|kind| POINTS.map(|point| run(*kind, point)));
    let wrong: Vec<String> = join_all(cells).await.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
