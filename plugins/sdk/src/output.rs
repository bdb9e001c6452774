//! What a successful call returns.

use crate::Failure;
use serde::Serialize;

/// The result of a call, in reading order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The pieces.
    pub parts: Vec<Part>,
}

/// A piece of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// For the model to read. Shortened by the host when over budget, never lost.
    Text(String),
    /// A JSON document, for programs.
    Json(String),
    /// Bytes with a media type, as in `image/png`.
    Blob {
        /// As in `image/png`.
        media_type: String,
        /// A file name, where there is one.
        name: Option<String>,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

impl Output {
    /// One piece of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text(text.into())] }
    }

    /// One JSON document.
    pub fn json(value: &impl Serialize) -> Result<Self, Failure> {
        Self::default().and_json(value)
    }

    /// The same result once more, for programs.
    pub fn and_json(mut self, value: &impl Serialize) -> Result<Self, Failure> {
        let document = serde_json::to_string(value)
            .map_err(|error| Failure::Other(format!("cannot write the result as JSON: {error}")))?;
        self.parts.push(Part::Json(document));
        Ok(self)
    }

    /// Bytes beside the rest.
    pub fn and_blob(mut self, media_type: impl Into<String>, name: Option<String>, bytes: Vec<u8>) -> Self {
        self.parts.push(Part::Blob { media_type: media_type.into(), name, bytes });
        self
    }

    /// All text pieces, for tests and for wrapping another tool.
    pub fn to_text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None })
            .collect()
    }
}

impl From<String> for Output {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}
