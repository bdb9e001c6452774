//! Answers instead of a network, for the tests of plugins on native targets.

use super::{Request, Response, Target};
use crate::Failure;
use std::cell::RefCell;

type Answer = Box<dyn FnMut(&Request) -> Result<Response, Failure>>;

thread_local! {
    static ANSWER: RefCell<Option<Answer>> = const { RefCell::new(None) };
}

/// From now on `answer` serves every request of this thread. Without one, requests fail.
pub fn stand_in_for_test(answer: impl FnMut(&Request) -> Result<Response, Failure> + 'static) {
    ANSWER.with_borrow_mut(|slot| *slot = Some(Box::new(answer)));
}

pub(super) fn send(request: &Request, _target: &Target<'_>) -> Result<Response, Failure> {
    ANSWER.with_borrow_mut(|slot| match slot {
        Some(answer) => {
            let mut response = answer(request)?;
            response.is_truncated |= response.body.len() > request.max_bytes;
            response.body.truncate(request.max_bytes);
            Ok(response)
        }
        None => Err(Failure::unavailable(format!(
            "no network outside a host; a test answers for `{}` with `http::stand_in_for_test`",
            if request.is_safe() { &request.url } else { &request.method }
        ))),
    })
}
