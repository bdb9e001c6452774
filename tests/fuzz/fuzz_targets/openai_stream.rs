//! A reply's body, cut at the places that the first bytes name, decodes to the same as in one piece.

#![no_main]

use hames_core::provider::{ChatReply, ProviderErrorKind, ReplyEvent};
use hames_providers::{Protocol, ReplyDecoder};
use libfuzzer_sys::fuzz_target;

type Decoded = (Vec<ReplyEvent>, Result<ChatReply, ProviderErrorKind>);

fn decode(pieces: &[&[u8]]) -> Decoded {
    let (mut decoder, mut events) = (ReplyDecoder::new(Protocol::OpenAiChat), Vec::new());
    for piece in pieces {
        if let Err(error) = decoder.push(piece, &mut events) {
            return (events, Err(error.kind));
        }
    }
    let end = decoder.finish(&mut events).map_err(|error| error.kind);
    (events, end)
}

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (first, second, bytes) = input;
    let (mut low, mut high) = (usize::from(first).min(bytes.len()), usize::from(second).min(bytes.len()));
    if low > high {
        std::mem::swap(&mut low, &mut high);
    }
    let whole = decode(&[bytes]);
    let cut = decode(&[&bytes[..low], &bytes[low..high], &bytes[high..]]);
    assert_eq!(whole, cut);
    let (events, end) = whole;
    if let Ok(reply) = end {
        let text: String = events
            .iter()
            .filter_map(|e| if let ReplyEvent::Text(piece) = e { Some(piece.as_str()) } else { None })
            .collect();
        assert_eq!(text, reply.text);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let mut events = Vec::new();
        let mut decoder = ReplyDecoder::new(Protocol::OpenAiChat);
        if decoder.push_document(text, &mut events).is_ok() {
            let _ = decoder.finish(&mut events);
        }
    }
});
