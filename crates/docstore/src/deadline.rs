//! `maxTimeMS`: the time after which a command gives up.

use crate::error::{Code, CommandError, CommandResult};
use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

/// When a command has to be done; never, unless it said so.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Deadline(Option<Instant>);

/// Documents looked at between two looks at the clock, which would else cost more than they do.
const STRIDE: usize = 128;

impl Deadline {
    /// `millis` from now; 0 is never.
    pub(crate) fn after_millis(millis: u64) -> Self {
        Self((millis > 0).then(|| Instant::now().checked_add(Duration::from_millis(millis))).flatten())
    }

    /// Shows `visit` each item until it breaks off or time is up.
    pub(crate) fn guard<T>(
        self,
        items: impl IntoIterator<Item = T>,
        mut visit: impl FnMut(T) -> ControlFlow<()>,
    ) -> CommandResult<()> {
        for (index, item) in items.into_iter().enumerate() {
            if index % STRIDE == STRIDE - 1 && self.0.is_some_and(|end| Instant::now() > end) {
                let message = "operation exceeded time limit; raise maxTimeMS or add an index";
                return Err(CommandError::new(Code::MaxTimeMsExpired, message));
            }
            if visit(item).is_break() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_ends_an_endless_scan() {
        let endless = Deadline::after_millis(1).guard(std::iter::repeat(()), |()| ControlFlow::Continue(()));
        assert_eq!(endless.unwrap_err().code, Code::MaxTimeMsExpired);
    }

    #[test]
    fn no_deadline_never_ends() {
        let mut count = 0;
        let visit = |_| {
            count += 1;
            ControlFlow::Continue(())
        };
        Deadline::after_millis(0).guard(0..1000, visit).unwrap();
        assert_eq!(count, 1000);
    }
}
