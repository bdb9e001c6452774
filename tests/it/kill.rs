//! `kill -9` at random moments of a turn whose calls have effects: the session always goes on, every call has exactly one
//! result, nothing is run twice.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hames_testkit::{HttpReply, HttpRequest, ModelServer, SseReply};
use serde_json::{Value, json};

use crate::program::Home;

const KILLS: u64 = 20;
const STEPS: usize = 6;

/// A model that appends one number per step, counting on from what it sees in its own history.
fn reply(request: &HttpRequest) -> HttpReply {
    let body = request.json();
    let messages = body["messages"].as_array().unwrap();
    let made = messages.iter().filter(|message| message["tool_calls"].is_array()).count();
    let reply = if made < STEPS {
        let arguments = json!({"path": "log.txt", "old_text": "END", "new_text": format!("{made},END")});
        SseReply::calls([(format!("c{made}").as_str(), "edit_file", arguments.to_string().as_str())])
    } else {
        SseReply::text("all steps are done")
    };
    reply.usage(10, 5).done().chunked(64).paced(Duration::from_millis(2))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_turn_goes_on_and_repeats_nothing() {
    let seed = match std::env::var("HAMES_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos().into(),
    };
    eprintln!("seed {seed}: set HAMES_SEED={seed} to play this again");
    let server = ModelServer::start_with(reply).await.unwrap();
    let url = server.base_url();
    // How long a whole run takes, plugins in the cache.
    one_session(&url, None);
    let began = Instant::now();
    one_session(&url, None);
    let whole = began.elapsed();

    let mut random = seed;
    let mut killed = 0;
    for _ in 0..KILLS {
        random = splitmix(&mut { random });
        let after = whole.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64);
        killed += u32::from(one_session(&url, Some(after)));
    }
    eprintln!("{killed} of {KILLS} were killed before they ended; a whole run takes {whole:?}");
    assert!(killed > 5, "the kills came too late to say anything");
}

/// Starts a run, kills it after a while, resumes it until it is done, and checks what is left. True if the kill hit.
fn one_session(url: &str, kill_after: Option<Duration>) -> bool {
    let home = Home::new();
    home.write("work/log.txt", "END");
    let flags = ["run", "--approve", "always", "--model", "m", "--base-url", url];
    let mut child = home
        .command(flags.iter().chain(&["count"]))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    if let Some(after) = kill_after {
        // Real time is what this test is about.
        std::thread::sleep(after);
        child.kill().unwrap();
    }
    let is_killed = !child.wait().unwrap().success();
    assert!(kill_after.is_some() || !is_killed, "an undisturbed run is well");
    let Some(id) = home.sessions().pop() else {
        assert!(is_killed, "a run that ended left a session");
        return true;
    };
    if is_killed {
        let resumed = home.run(flags.iter().chain(&["--session", &id, "go on"]));
        assert_eq!(resumed.status, 0, "{}", resumed.text());
    }
    check(&home.transcript(&id), &home.read("work/log.txt"));
    is_killed
}

fn check(entries: &[Value], log: &str) {
    let mut started = BTreeMap::<&str, u32>::new();
    let mut results = BTreeMap::<&str, u32>::new();
    let mut calls = Vec::new();
    let (mut turns_started, mut turns_ended) = (0, 0);
    for (index, entry) in entries.iter().enumerate() {
        assert_eq!(entry["n"].as_u64(), Some(index as u64 + 1), "numbers have no gaps");
        match entry["record"].as_str().unwrap() {
            "message" => {
                let made = entry["message"]["calls"].as_array().into_iter().flatten();
                calls.extend(made.map(|call| call["id"].as_str().unwrap()));
            }
            "call_started" => *started.entry(entry["call_id"].as_str().unwrap()).or_default() += 1,
            "call_finished" => {
                *results.entry(entry["message"]["call_id"].as_str().unwrap()).or_default() += 1
            }
            "turn_started" => turns_started += 1,
            "turn_ended" => turns_ended += 1,
            _ => {}
        }
    }
    for call in &calls {
        assert_eq!(results.get(call), Some(&1), "call {call} has exactly one result");
        assert!(started.get(call).is_none_or(|count| *count == 1), "call {call} ran at most once");
    }
    assert_eq!(results.len(), calls.len());
    assert!(turns_ended >= turns_started, "every turn has its end");
    let numbers: Vec<&str> =
        log.strip_suffix("END").expect("the file is whole").split_terminator(',').collect();
    let mut unique = numbers.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), numbers.len(), "no step had its effect twice: {log}");
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
