//! The fakes keep the contracts of the ports too.

use hames_core::gate::HourWindow;
use hames_core::provider::{ProviderErrorKind, StopReason};
use hames_core::spend::MemorySpendBook;
use hames_testkit::{FakeMemory, MemoryResults, MemoryTranscript, Script, ScriptedProvider, contract};

#[test]
fn fakes_keep_their_contracts() {
    let transcript = MemoryTranscript::new();
    contract::transcript(&transcript, || transcript.entries());
    contract::result_store(&MemoryResults::default());
    contract::action_window(&HourWindow::default());
    contract::spend_book(&MemorySpendBook::default());
}

#[tokio::test]
async fn the_fake_memory_keeps_its_contract() {
    contract::memory(&FakeMemory::new()).await;
}

#[tokio::test]
async fn the_scripted_provider_keeps_its_contract() {
    let whole = Script::partial("Hello there")
        .reasoning("hm")
        .call(Some("a"), "x", "{}")
        .finished(StopReason::ToolUse);
    let provider = ScriptedProvider::new([
        whole,
        Script::refused(ProviderErrorKind::Auth),
        Script::partial("x").broken(ProviderErrorKind::Malformed),
        Script::dropped(),
    ]);
    let reply = contract::provider_reply(&provider, "m", Vec::new()).await;
    assert_eq!((reply.text.as_str(), reply.calls.len()), ("Hello there", 1));
    for kind in [ProviderErrorKind::Auth, ProviderErrorKind::Malformed, ProviderErrorKind::Transport] {
        contract::provider_error(&provider, "m", kind).await;
    }
}
