//! Images that a model may see: in a message of the user, in the result of a tool.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Larger images are refused by one provider or the other (Anthropic's limit is 5 MB each).
pub const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024;
/// Tokens of an image whose size in pixels is not known, and the most that is counted: Anthropic scales larger ones down.
const MAX_TOKENS: u64 = 1_600;
/// No provider counts fewer.
const MIN_TOKENS: u64 = 85;
/// Anthropic's rule for the tokens of an image; those of others stay below it.
const PIXELS_PER_TOKEN: u64 = 750;

/// The kinds of images that every provider with eyes can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageKind {
    /// PNG.
    #[serde(rename = "image/png")]
    Png,
    /// JPEG.
    #[serde(rename = "image/jpeg")]
    Jpeg,
    /// GIF; of a moving one the first picture is seen.
    #[serde(rename = "image/gif")]
    Gif,
    /// WebP.
    #[serde(rename = "image/webp")]
    Webp,
}

impl ImageKind {
    /// As in `image/png`.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// What the bytes are, whatever they are called.
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            _ => None,
        }
    }
}

/// Bytes that no model would see.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// Something else, or nothing.
    #[error("these {bytes} bytes are no PNG, JPEG, GIF or WebP image")]
    UnknownKind {
        /// How many there are.
        bytes: usize,
    },
    /// Over the limit.
    #[error("an image of {bytes} bytes is over the limit of {MAX_IMAGE_BYTES}")]
    TooLarge {
        /// How many there are.
        bytes: usize,
    },
}

/// An image as it travels: base64, so that it is encoded once and the same in every request.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    kind: ImageKind,
    base64: Arc<str>,
}

impl Image {
    /// Takes the bytes of a file. They are looked at, not the file's name.
    pub fn new(bytes: &[u8]) -> Result<Self, ImageError> {
        if bytes.len() > MAX_IMAGE_BYTES {
            return Err(ImageError::TooLarge { bytes: bytes.len() });
        }
        let kind = ImageKind::of(bytes).ok_or(ImageError::UnknownKind { bytes: bytes.len() })?;
        Ok(Self { kind, base64: STANDARD.encode(bytes).into() })
    }

    /// What it is.
    pub fn kind(&self) -> ImageKind {
        self.kind
    }

    /// The bytes, in base64.
    pub fn base64(&self) -> &str {
        &self.base64
    }

    /// As a `data:` URL.
    pub fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.kind.media_type(), self.base64)
    }

    /// Tokens that it takes in a request, by its size in pixels; rather too many.
    pub fn tokens(&self) -> u64 {
        let pixels = self.pixels().map(|(width, height)| width.saturating_mul(height));
        pixels.map_or(MAX_TOKENS, |pixels| pixels / PIXELS_PER_TOKEN).clamp(MIN_TOKENS, MAX_TOKENS)
    }

    /// Width and height, where the beginning of the file says them.
    fn pixels(&self) -> Option<(u64, u64)> {
        let head = self.base64.get(..self.base64.len().min(64))?;
        let bytes = STANDARD.decode(head.get(..head.len() / 4 * 4)?).ok()?;
        let number = |at: usize, of: usize| -> Option<u64> {
            Some(bytes.get(at..at + of)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
        };
        match self.kind {
            ImageKind::Png => Some((number(16, 4)?, number(20, 4)?)),
            ImageKind::Gif => {
                let little = |at| Some(number(at, 1)? | number(at + 1, 1)? << 8);
                Some((little(6)?, little(8)?))
            }
            // Theirs stands somewhere behind.
            ImageKind::Jpeg | ImageKind::Webp => None,
        }
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({}, {} characters of base64)", self.kind.media_type(), self.base64.len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]

    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend([8, 6, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn the_bytes_say_what_it_is() {
        let table: [(&[u8], ImageKind); 5] = [
            (&png(1, 1), ImageKind::Png),
            (b"\xff\xd8\xff\xe0", ImageKind::Jpeg),
            (b"GIF87a", ImageKind::Gif),
            (b"GIF89a..", ImageKind::Gif),
            (b"RIFF\x04\0\0\0WEBPVP8 ", ImageKind::Webp),
        ];
        for (bytes, kind) in table {
            assert_eq!(Image::new(bytes).unwrap().kind(), kind);
        }
        for bytes in [b"".as_slice(), b"GIF88a", b"<svg/>", b"%PDF-1.7", b"RIFF\x04\0\0\0WAVE"] {
            assert_eq!(Image::new(bytes), Err(ImageError::UnknownKind { bytes: bytes.len() }));
        }
        let bytes = MAX_IMAGE_BYTES + 1;
        assert_eq!(Image::new(&vec![0xff; bytes]), Err(ImageError::TooLarge { bytes }));
    }

    #[test]
    fn tokens_go_by_pixels_where_they_are_known() {
        let tokens = |bytes: &[u8]| Image::new(bytes).unwrap().tokens();
        assert_eq!(tokens(&png(1000, 750)), 1000);
        assert_eq!(tokens(&png(16, 16)), MIN_TOKENS);
        assert_eq!(tokens(&png(u32::MAX, u32::MAX)), MAX_TOKENS);
        assert_eq!(tokens(b"GIF89a\xe8\x03\xee\x02"), 1000);
        assert_eq!(tokens(b"GIF89a"), MAX_TOKENS, "a file that is cut off");
        assert_eq!(tokens(b"\xff\xd8\xff"), MAX_TOKENS);
    }

    #[test]
    fn it_travels_as_base64_and_is_not_printed() {
        let image = Image::new(b"GIF89a").unwrap();
        let written = serde_json::to_string(&image).unwrap();
        assert_eq!(written, r#"{"kind":"image/gif","base64":"R0lGODlh"}"#);
        assert_eq!(serde_json::from_str::<Image>(&written).unwrap(), image);
        assert_eq!(image.data_url(), "data:image/gif;base64,R0lGODlh");
        assert_eq!(format!("{image:?}"), "Image(image/gif, 8 characters of base64)");
    }
}
