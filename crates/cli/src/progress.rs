//! What a run shows while it goes on.

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use meshtoll_lab::run::Event;
use std::io::IsTerminal as _;

/// A bar on a terminal, lines elsewhere. It draws between slices and never of itself: drawing costs CPU time, and a
/// measurement may be under way.
pub(crate) struct Progress {
    bar: ProgressBar,
    terminal: bool,
    told_percent: Option<u64>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(
            ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}")
                .unwrap_or_else(|error| unreachable!("the template is a constant: {error}")),
        );
        Self { bar, terminal: std::io::stderr().is_terminal(), told_percent: None }
    }

    pub(crate) fn show(&mut self, event: Event<'_>) {
        match event {
            Event::BringingUp { case, subject, number, of } => {
                self.say(&format!("bringing up {case} on {subject} ({number} of {of})"));
            }
            Event::Slice { case, subject, level, done, of, remaining } => {
                let remaining = HumanDuration(remaining);
                self.bar.set_length(of);
                self.bar.set_position(done);
                let message = format!("{case} on {subject}, {level}; about {remaining} left");
                let percent = done * 100 / of.max(1);
                if self.terminal {
                    self.bar.set_message(message);
                } else if self.told_percent.is_none_or(|told| percent >= told + 10) {
                    self.told_percent = Some(percent);
                    eprintln!("{percent:>3} %  {message}");
                }
            }
        }
    }

    fn say(&self, message: &str) {
        if self.terminal { self.bar.set_message(message.to_owned()) } else { eprintln!("{message}") }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
