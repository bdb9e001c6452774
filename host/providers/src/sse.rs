//! Server-sent events from bytes that come in any pieces.
//!
//! A reader that is pushed to, without I/O, so that it can be fuzzed and gives the same events for every way to cut the
//! bytes. Written here rather than taken from a crate because three things were needed that `eventsource-stream` does
//! not do: a cap on one event, the last event of a body without a final blank line, and time that is linear in the
//! bytes (it is the oracle in the tests). Fields other than `data` and `event` have no meaning for a reply; comments
//! only show that the server lives, which the caller sees by the bytes that came.

/// Largest event that is accepted.
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The event's type; empty when not given.
    pub(crate) event: String,
    /// The data lines, joined by line breaks. Invalid UTF-8 is replaced, as the standard says.
    pub(crate) data: String,
}

/// An event is larger than [`MAX_EVENT_BYTES`].
#[derive(Debug, thiserror::Error)]
#[error("one event of the stream is larger than {MAX_EVENT_BYTES} bytes")]
pub(crate) struct EventTooLarge;

/// Reads events from pushed bytes.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    /// The unfinished line.
    line: Vec<u8>,
    /// The last line ended in CR: an LF that follows belongs to it.
    after_cr: bool,
    /// A line was finished, so that a byte order mark can no longer come.
    is_started: bool,
    event: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
}

impl SseReader {
    /// Takes bytes and calls `sink` for every event that they complete.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FnMut(SseEvent),
    ) -> Result<(), EventTooLarge> {
        let mut rest = bytes;
        if self.after_cr && !rest.is_empty() {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            self.after_cr = false;
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (head, tail) = rest.split_at(end);
            if self.line.is_empty() {
                self.take_line(head, sink);
            } else {
                self.line.extend_from_slice(head);
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, sink);
                self.line = line;
                self.line.clear();
            }
            self.check_size(0)?;
            rest = match tail {
                [b'\r', b'\n', more @ ..] | [b'\n', more @ ..] => more,
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [_, more @ ..] => more,
                [] => &[],
            };
        }
        self.check_size(rest.len())?;
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// The body ended: an event without its closing blank line counts all the same. Whether the reply is complete is
    /// decided by what the events say.
    pub(crate) fn finish(&mut self, sink: &mut impl FnMut(SseEvent)) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, sink);
        }
        self.take_line(b"", sink);
    }

    fn check_size(&self, more: usize) -> Result<(), EventTooLarge> {
        let bytes = self.line.len() + self.data.len() + more;
        if bytes > MAX_EVENT_BYTES { Err(EventTooLarge) } else { Ok(()) }
    }

    fn take_line(&mut self, line: &[u8], sink: &mut impl FnMut(SseEvent)) {
        let line = if self.is_started { line } else { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) };
        self.is_started = true;
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            if std::mem::take(&mut self.has_data) {
                let data = std::mem::take(&mut self.data);
                sink(SseEvent { event: text(event), data: text(data) });
            }
            return;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.event = value.to_vec(),
            _ => {}
        }
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "test")]

    use eventsource_stream::Eventsource;
    use futures::{FutureExt, StreamExt, stream};
    use proptest::prelude::*;

    use super::*;

    fn read(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut events = Vec::new();
        let mut reader = SseReader::default();
        let mut sink = |event: SseEvent| events.push((event.event, event.data));
        for chunk in chunks {
            reader.push(chunk, &mut sink).unwrap();
        }
        reader.finish(&mut sink);
        events
    }

    fn data_of(text: &str) -> Vec<String> {
        read(&[text.as_bytes()]).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn line_ends_marks_comments_and_many_data_lines() {
        assert_eq!(data_of("\u{feff}data: a\r\n\r\ndata:b\r\rdata: c\n\n"), ["a", "b", "c"]);
        assert_eq!(data_of(": ping\n\nid: 7\nretry: 3\n\ndata: a\n: x\ndata:  b\n\n"), ["a\n b"]);
        assert_eq!(data_of("data: last"), ["last"], "no final blank line");
        assert_eq!(data_of("data\n\n"), [""]);
        assert_eq!(
            read(&[b"event: error\ndata: x\n\ndata: y\n\n"]),
            [("error".to_owned(), "x".to_owned()), (String::new(), "y".to_owned())]
        );
    }

    #[test]
    fn a_carriage_return_at_the_end_of_a_piece_ends_one_line() {
        assert_eq!(
            read(&[b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n"]),
            [(String::new(), "a\nb".to_owned())]
        );
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut reader = SseReader::default();
        let piece = vec![b'x'; MAX_EVENT_BYTES / 2];
        assert!(reader.push(&piece, &mut |_| ()).is_ok());
        assert!(reader.push(&piece, &mut |_| ()).is_ok());
        assert!(reader.push(b"x", &mut |_| ()).is_err());
    }

    proptest! {
        #[test]
        fn cutting_has_no_influence(
            text in "(data|event|id|:|: ?[a-zé]{0,4}|\r\n|\n|\r|x){0,40}",
            cuts in prop::collection::vec(0usize..200, 0..6),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(bytes.get(from..cut).unwrap());
                from = cut;
            }
            pieces.push(bytes.get(from..).unwrap());
            prop_assert_eq!(read(&pieces), read(&[bytes]));
        }

        #[test]
        fn the_oracle_agrees(fields in prop::collection::vec("(data: ?[a-zé:]{1,5}|event:[a-z]{1,3}|: c|)\n", 0..20)) {
            let text = format!("{}\n", fields.concat());
            let oracle = stream::iter([Ok::<_, std::io::Error>(text.clone())]).eventsource();
            let named = |event: eventsource_stream::Event| {
                (if event.event == "message" { String::new() } else { event.event }, event.data)
            };
            let events = oracle.map(|event| named(event.unwrap())).collect::<Vec<_>>();
            let expected = events.now_or_never().expect("the bytes are all there");
            prop_assert_eq!(read(&[text.as_bytes()]), expected);
        }
    }
}
