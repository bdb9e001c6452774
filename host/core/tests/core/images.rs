//! Images: in messages of the user, in results of tools, and before models that see none.

use std::sync::Arc;

use hames_core::provider::ModelFacts;
use hames_core::turn::{EngineParts, UserInput};
use hames_core::types::{
    DialectChoice, DialectKind, Image, Message, Part, ToolOutput, ToolResultMessage, TurnEnd,
};
use hames_testkit::{Behaviour, FakeTool, Script};
use serde_json::json;

use crate::support::{Plan, Rig, plan};

fn gif() -> Image {
    Image::new(b"GIF89a\x01\0\x01\0").unwrap()
}

fn look() -> UserInput {
    UserInput::text("what is this?").showing(vec![gif()])
}

fn sees(plan: Plan, sees_images: Option<bool>) -> Plan {
    plan.parts(move |parts: &mut EngineParts| {
        parts.facts = Some(ModelFacts { is_free: true, sees_images, ..ModelFacts::default() });
    })
}

/// The newest message of each request that is the user's.
fn asked(rig: &Rig) -> Vec<Message> {
    let requests = rig.provider.requests();
    requests.iter().map(|request| (**request.messages.last().unwrap()).clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_the_user_shows_is_sent_and_kept() {
    for known in [None, Some(true)] {
        let mut rig = sees(plan([Script::text("a dot"), Script::text("still a dot")]), known).rig();
        rig.say(look()).await;
        rig.say("sure?").await;
        let shown = Message::User { text: "what is this?".to_owned(), images: vec![gif()] };
        assert_eq!(asked(&rig), [shown.clone(), Message::user("sure?")]);
        let mut resumed = sees(plan([Script::text("yes")]), known).resumed(rig.transcript.entries());
        resumed.say("and now?").await;
        assert!(resumed.provider.requests()[0].messages.iter().any(|message| **message == shown));
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_sees_nothing_is_not_asked_and_nothing_is_lost() {
    let mut rig = sees(plan([Script::text("words, then")]), Some(false)).rig();
    let told = rig.say(look()).await;
    let TurnEnd::Failed { error, .. } = told.end() else { panic!("{:?}", told.end()) };
    assert!(error.contains("`m` sees none") && error.contains("hint: choose a model"), "{error}");
    assert_eq!(rig.provider.requests(), []);
    rig.say("it is a dot").await;
    let sent = &rig.provider.requests()[0].messages;
    assert_eq!(*sent[1], Message::user("what is this?\n[image/gif, not shown]"));
    // Another model of the same session sees it.
    let mut resumed = sees(plan([Script::text("a dot")]), Some(true)).resumed(rig.transcript.entries());
    resumed.say("and you?").await;
    assert_eq!(resumed.provider.requests()[0].messages[1].images(), [gif()]);
}

fn camera() -> Arc<FakeTool> {
    let blob = |bytes: &[u8]| Part::Blob {
        media_type: "image/gif".to_owned(),
        name: Some("a.gif".to_owned()),
        bytes: bytes.to_vec(),
    };
    let parts =
        vec![Part::Text("took two".to_owned()), blob(b"GIF89a\x01\0\x01\0"), blob(b"no picture at all")];
    Arc::new(FakeTool::new("camera", Behaviour::Output(ToolOutput { parts })))
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_shows_is_seen_by_those_who_can() {
    let text = "took two\n[image/gif `a.gif`, 10 bytes]\n[image/gif `a.gif`, 17 bytes]";
    for known in [None, Some(true), Some(false)] {
        let scripts = [Script::calls([("camera", json!({}))]), Script::text("a dot")];
        let mut rig = sees(plan(scripts).tool(&camera()), known).rig();
        rig.say("look around").await;
        let Message::ToolResult(result) = asked(&rig)[1].clone() else { panic!() };
        let ToolResultMessage { text: said, images, .. } = result;
        assert_eq!(said, text);
        assert_eq!(images, if known == Some(true) { vec![gif()] } else { vec![] }, "{known:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_text_dialect_shows_them_beside_its_envelopes() {
    let call = "<tool_call>\n{\"name\": \"camera\", \"arguments\": {}}\n</tool_call>";
    let plan = plan([Script::text(call), Script::text("a dot")]).tool(&camera()).parts(|parts| {
        parts.facts = Some(ModelFacts { is_free: true, sees_images: Some(true), ..ModelFacts::default() });
        parts.dialect = DialectChoice::Fixed(DialectKind::Xml);
    });
    let mut rig = plan.rig();
    rig.say("look around").await;
    let Message::User { text, images } = asked(&rig)[1].clone() else { panic!() };
    assert!(text.contains("took two"), "{text}");
    assert_eq!(images, [gif()]);
}

#[tokio::test(start_paused = true)]
async fn pictures_fill_the_window_and_go_with_their_results() {
    // A picture counts 1,600 tokens here: what is not told is taken for large.
    let blob =
        Part::Blob { media_type: "image/jpeg".to_owned(), name: None, bytes: b"\xff\xd8\xff\xe0".to_vec() };
    let output = ToolOutput { parts: vec![Part::Text("taken".to_owned()), blob] };
    let tool = Arc::new(FakeTool::new("camera", Behaviour::Output(output)));
    let mut scripts: Vec<Script> =
        (0..8).map(|n| Script::calls([("camera", json!({ "angle": n }))])).collect();
    scripts.push(Script::text("done"));
    let plan = plan(scripts).tool(&tool).parts(|parts| {
        let context_tokens = Some(10_000);
        parts.facts = Some(ModelFacts {
            is_free: true,
            context_tokens,
            sees_images: Some(true),
            ..ModelFacts::default()
        });
    });
    let mut rig = plan.rig();
    let told = rig.say("look around").await;
    assert!(matches!(told.end(), TurnEnd::Completed { .. }), "{:?}", told.end());
    let pictures = |messages: &[Arc<Message>]| messages.iter().map(|m| m.images().len()).sum::<usize>();
    let counts: Vec<usize> =
        rig.provider.requests().iter().map(|request| pictures(&request.messages)).collect();
    assert_eq!(counts[..5], [0, 1, 2, 3, 4]);
    assert!(counts.iter().all(|count| *count <= 5), "{counts:?}");
}
