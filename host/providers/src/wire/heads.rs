//! The encoded beginnings of recent requests: model, options and tools, which stay the same from request to request.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hames_core::provider::{ChatRequest, ProviderError};
use hames_core::types::ToolSpec;

use super::encode_error;

/// Heads that are kept: agents with different tools take turns on one provider.
const MAX_HEADS: usize = 8;

/// What was encoded last, by model, output limit and tools.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    known: Mutex<Vec<Head>>,
}

#[derive(Debug)]
struct Head {
    model: String,
    max_output_tokens: Option<u32>,
    tools: Arc<[Arc<ToolSpec>]>,
    bytes: Bytes,
}

impl Heads {
    /// The head of a request; `write` makes it where it is not known.
    pub(crate) fn of(
        &self,
        request: &ChatRequest<'_>,
        write: impl FnOnce(&ChatRequest<'_>) -> Result<Vec<u8>, serde_json::Error>,
    ) -> Result<Bytes, ProviderError> {
        let mut heads = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = heads.iter().position(|head| {
            head.model == request.model
                && head.max_output_tokens == request.max_output_tokens
                && Arc::ptr_eq(&head.tools, request.tools)
        });
        let head = match known {
            Some(position) => heads.remove(position),
            None => Head {
                model: request.model.to_owned(),
                max_output_tokens: request.max_output_tokens,
                tools: Arc::clone(request.tools),
                bytes: write(request).map_err(encode_error)?.into(),
            },
        };
        let bytes = head.bytes.clone();
        // Newest last, oldest out.
        heads.push(head);
        if heads.len() > MAX_HEADS {
            heads.remove(0);
        }
        Ok(bytes)
    }
}
