//! The lab's side of a load process.

use crate::protocol::{Answer, Command, Schedule, SliceResult};
use std::{
    io::{self, BufRead, Write},
    time::Duration,
};

/// Commands a load process through its pipes, and waits for its answers.
#[derive(Debug)]
pub struct Control<R, W> {
    answers: R,
    commands: W,
    line: String,
}

/// Why there is no answer, or not the one that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The process takes no command.
    #[error("cannot send a command to the load process")]
    Send(#[source] io::Error),
    /// The process's answers cannot be read.
    #[error("cannot read the load process's answer")]
    Receive(#[source] io::Error),
    /// The process closed its standard output.
    #[error("the load process ended without an answer; its standard error says why")]
    Ended,
    /// Not an answer of the protocol.
    #[error("the load process answered {line:?}, which is not an answer of the load protocol")]
    Malformed {
        /// What it said.
        line: String,
        /// Why it is not an answer.
        source: serde_json::Error,
    },
    /// An answer to something else.
    #[error("the load process answered something else than was asked")]
    Unexpected,
    /// The process could not do it.
    #[error("the load process could not do it: {reason}")]
    Failed {
        /// Why, in its words.
        reason: String,
    },
}

impl<R: BufRead, W: Write> Control<R, W> {
    /// Commands the process whose standard output is `answers` and whose standard input is `commands`.
    pub fn new(answers: R, commands: W) -> Self {
        Self { answers, commands, line: String::new() }
    }

    /// Has this many sessions open and logged in, keeping those that are, and mending those that are broken.
    /// Returns how many are open now.
    pub fn prepare(&mut self, sessions: u32) -> Result<u32, ControlError> {
        match self.ask(&Command::Prepare { sessions })? {
            Answer::Prepared { sessions } => Ok(sessions),
            Answer::Driven(_) | Answer::Failed { .. } => Err(ControlError::Unexpected),
        }
    }

    /// Drives one slice, and waits until it is over: `lead_in` + `window` and the answers still out by then. Both are
    /// sent in whole milliseconds, rounded up.
    pub fn drive(
        &mut self,
        schedule: Schedule,
        lead_in: Duration,
        window: Duration,
    ) -> Result<SliceResult, ControlError> {
        let millis = |span: Duration| u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        match self.ask(&Command::Drive { schedule, lead_in_ms: millis(lead_in), window_ms: millis(window) })? {
            Answer::Driven(slice) => Ok(*slice),
            Answer::Prepared { .. } | Answer::Failed { .. } => Err(ControlError::Unexpected),
        }
    }

    fn ask(&mut self, command: &Command) -> Result<Answer, ControlError> {
        let mut text = serde_json::to_string(command).map_err(|error| ControlError::Send(error.into()))?;
        text.push('\n');
        self.commands.write_all(text.as_bytes()).and_then(|()| self.commands.flush()).map_err(ControlError::Send)?;
        self.line.clear();
        if self.answers.read_line(&mut self.line).map_err(ControlError::Receive)? == 0 {
            return Err(ControlError::Ended);
        }
        match serde_json::from_str(&self.line) {
            Ok(Answer::Failed { reason }) => Err(ControlError::Failed { reason }),
            Ok(answer) => Ok(answer),
            Err(source) => Err(ControlError::Malformed { line: self.line.trim_end().to_owned(), source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(answer: &str) -> (Result<u32, ControlError>, String) {
        let mut commands = Vec::new();
        let answered = Control::new(answer.as_bytes(), &mut commands).prepare(3);
        (answered, String::from_utf8(commands).unwrap())
    }

    #[test]
    fn asks_one_line_and_reads_one() {
        let (answered, asked) = ask("{\"prepared\":{\"sessions\":3}}\n");
        assert_eq!((answered.unwrap(), &*asked), (3, "{\"prepare\":{\"sessions\":3}}\n"));
    }

    #[test]
    fn tells_apart_why_there_is_no_answer() {
        assert!(matches!(ask("").0, Err(ControlError::Ended)));
        assert!(matches!(ask("hello\n").0, Err(ControlError::Malformed { .. })));
        let failed = ask("{\"failed\":{\"reason\":\"no server\"}}\n").0.unwrap_err();
        assert_eq!(failed.to_string(), "the load process could not do it: no server");
    }
}
