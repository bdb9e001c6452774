//! A reply's body in the protocol that the first byte names, cut at the places that the next two name, decodes to the same
//! as in one piece.

#![no_main]

use hames_core::provider::{ChatReply, ProviderErrorKind, ReplyEvent};
use hames_providers::{Protocol, ReplyDecoder};
use libfuzzer_sys::fuzz_target;

type Decoded = (Vec<ReplyEvent>, Result<ChatReply, ProviderErrorKind>);

fn decode(protocol: Protocol, pieces: &[&[u8]]) -> Decoded {
    let (mut decoder, mut events) = (ReplyDecoder::new(protocol), Vec::new());
    for piece in pieces {
        if let Err(error) = decoder.push(piece, &mut events) {
            return (events, Err(error.kind));
        }
    }
    let end = decoder.finish(&mut events).map_err(|error| error.kind);
    (events, end)
}

fuzz_target!(|input: &[u8]| {
    let [protocol, first, second, bytes @ ..] = input else { return };
    let protocol = Protocol::ALL[usize::from(*protocol) % Protocol::ALL.len()];
    let (mut low, mut high) = (usize::from(*first).min(bytes.len()), usize::from(*second).min(bytes.len()));
    if low > high {
        std::mem::swap(&mut low, &mut high);
    }
    let whole = decode(protocol, &[bytes]);
    let cut = decode(protocol, &[&bytes[..low], &bytes[low..high], &bytes[high..]]);
    assert_eq!(whole, cut);
    let (events, end) = whole;
    // Anthropic's may begin anew: what was shown then stays shown.
    if let (Ok(reply), false) = (end, protocol == Protocol::Anthropic) {
        let text: String = events
            .iter()
            .filter_map(|e| if let ReplyEvent::Text(piece) = e { Some(piece.as_str()) } else { None })
            .collect();
        assert_eq!(text, reply.text);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let mut events = Vec::new();
        let mut decoder = ReplyDecoder::new(protocol);
        if decoder.push_document(text, &mut events).is_ok() {
            let _ = decoder.finish(&mut events);
        }
    }
});
