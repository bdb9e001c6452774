//! From the body of an answer to text that a model can read.

use hames_plugin::http::Response;

/// Long lines cost nothing; broken ones split URLs and table rows.
const HTML_WIDTH: usize = 120;

/// The body as text, at most `max_bytes`, with a note where something was left out.
pub(crate) fn body(response: &Response, is_raw: bool, max_bytes: usize) -> String {
    if response.body.is_empty() {
        return "[no body]".to_owned();
    }
    let media_type = media_type(response);
    if !is_text(&media_type, &response.body) {
        return format!("[{} bytes of {media_type}, not text]", response.body.len());
    }
    let text = decode(response);
    let text = if media_type.contains("html") && !is_raw { readable(&text) } else { text };
    cut(text, max_bytes, response.is_truncated)
}

fn media_type(response: &Response) -> String {
    let value = response.header("content-type").unwrap_or("application/octet-stream");
    value.split(';').next().unwrap_or(value).trim().to_ascii_lowercase()
}

/// What the type says; where it says nothing, whether the bytes are text.
fn is_text(media_type: &str, body: &[u8]) -> bool {
    let is_declared = media_type.starts_with("text/")
        || ["json", "xml", "javascript", "html", "yaml", "x-www-form-urlencoded"]
            .iter()
            .any(|word| media_type.contains(word));
    is_declared
        || (media_type == "application/octet-stream"
            && std::str::from_utf8(body).is_ok()
            && !body.contains(&0))
}

/// UTF-8, or Latin-1 where the header says so; bytes that are neither become U+FFFD.
fn decode(response: &Response) -> String {
    let charset = response.header("content-type").unwrap_or_default().to_ascii_lowercase();
    let is_latin1 = ["iso-8859-1", "latin1", "windows-1252"].iter().any(|name| charset.contains(name));
    match std::str::from_utf8(&response.body) {
        Err(_) if is_latin1 => response.body.iter().map(|byte| char::from(*byte)).collect(),
        _ => String::from_utf8_lossy(&response.body).into_owned(),
    }
}

/// Scripts, styles and markup go; headings, lists, tables and links (numbered, with their targets below) stay.
fn readable(html: &str) -> String {
    let config = html2text::config::plain().link_footnotes(true).no_link_wrapping().allow_width_overflow();
    match config.string_from_read(html.as_bytes(), HTML_WIDTH) {
        Ok(text) => text.trim().to_owned(),
        // A page that cannot be laid out is still better raw than not at all.
        Err(error) => format!("[the page could not be turned into text ({error}); this is its HTML]\n{html}"),
    }
}

fn cut(mut text: String, max_bytes: usize, is_truncated: bool) -> String {
    let whole = text.len();
    if whole > max_bytes {
        let end = (0..=max_bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        let at_least = if is_truncated { "more than " } else { "" };
        text.push_str(&format!(
            "\n[cut here: {end} of {at_least}{whole} bytes; ask for more with max_bytes]"
        ));
    } else if is_truncated {
        text.push_str("\n[the body was longer than was downloaded, or broke off: this is not all of it]");
    }
    text
}
