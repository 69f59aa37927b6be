//! The same request again and again.

use super::{Request, Scenario, UnexpectedAnswer};
use crate::client::Response;

/// A session that asks for one thing only, and takes any success for an answer.
pub(super) struct Fixed {
    request: Request,
}

impl Fixed {
    /// A session that sends `request`.
    pub(super) fn new(request: Request) -> Self {
        Self { request }
    }
}

impl Scenario for Fixed {
    fn next(&mut self, request: &mut Request) {
        // Nothing else ever writes to the session's request: what the first call put there is there still.
        if request.bytes().is_empty() {
            request.clone_from(&self.request);
        }
    }

    fn answered(&mut self, _: &Response<'_>) -> Result<(), UnexpectedAnswer> {
        Ok(())
    }

    fn restart(&mut self) {}

    fn is_set_up(&self) -> bool {
        true
    }
}
