//! The stop condition: a slice is driven for a time, of which all but the lead-in is measured.

use std::time::Duration;

/// The measured part of a slice, as times since its start. After its end no request is sent any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    opens: Duration,
    closes: Duration,
}

impl Window {
    /// A window of `length` that opens after `lead_in`.
    pub(crate) fn new(lead_in: Duration, length: Duration) -> Self {
        Self { opens: lead_in, closes: lead_in.saturating_add(length) }
    }

    /// Whether `at` is inside: the opening belongs to the window, the end does not.
    pub(crate) fn contains(&self, at: Duration) -> bool {
        self.opens <= at && at < self.closes
    }

    /// Whether `at` is too late to send.
    pub(crate) fn is_over(&self, at: Duration) -> bool {
        at >= self.closes
    }

    /// When it ends.
    pub(crate) fn end(&self) -> Duration {
        self.closes
    }

    /// How long it is.
    pub(crate) fn length(&self) -> Duration {
        self.closes - self.opens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_its_opening_and_not_its_end() {
        let window = Window::new(Duration::from_millis(100), Duration::from_millis(400));
        let inside = [99, 100, 499, 500].map(|ms| window.contains(Duration::from_millis(ms)));
        assert_eq!(inside, [false, true, true, false]);
        let over = [0, 499, 500, 501].map(|ms| window.is_over(Duration::from_millis(ms)));
        assert_eq!(over, [false, false, true, true]);
        assert_eq!(window.length(), Duration::from_millis(400));
    }
}
