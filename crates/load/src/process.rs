//! The load process: commands in, answers out.

use crate::{
    failure::chain,
    protocol::{Answer, Command, Schedule, SliceResult},
    scenario::{Plan, ScenarioConfig, ScenarioError},
    schedule::{self, Checked},
    session::{REQUEST_TIMEOUT, Session},
    window::Window,
};
use std::{
    io::{self, BufRead, Write},
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};

/// What a load process is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// What its sessions ask for.
    pub scenario: ScenarioConfig,
    /// From which all that is random is drawn: the same seed asks for the same, given the same answers.
    pub seed: u64,
}

/// Why a load process ends before its standard input does.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// What it was started with cannot be carried out.
    #[error("the scenario cannot be carried out")]
    Scenario(#[from] ScenarioError),
    /// The system grants no runtime.
    #[error("cannot start the runtime (epoll)")]
    Runtime(#[source] io::Error),
    /// No further command can be read.
    #[error("cannot read the next command")]
    Read(#[source] io::Error),
    /// Nobody takes the answer.
    #[error("cannot write an answer")]
    Write(#[source] io::Error),
}

/// Obeys commands on standard input, and answers on standard output, until standard input ends.
///
/// See [`crate::protocol`]. Nothing else may write to standard output meanwhile.
pub fn serve(options: &Options) -> Result<(), ServeError> {
    serve_on(options, io::stdin().lock(), io::stdout().lock())
}

/// [`serve`] on other streams, so that a process is not needed where CPU time need not be told apart.
pub fn serve_on(options: &Options, mut commands: impl BufRead, mut answers: impl Write) -> Result<(), ServeError> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(ServeError::Runtime)?;
    let plan = options.scenario.check()?;
    let mut generator = Generator { runtime, plan, seed: options.seed, sessions: Vec::new() };
    let mut line = String::new();
    while commands.read_line(&mut line).map_err(ServeError::Read)? > 0 {
        let obeyed = serde_json::from_str(&line).map_err(Refused::Command).and_then(|command| generator.obey(command));
        let answer = obeyed.unwrap_or_else(|refused| Answer::Failed { reason: chain(&refused) });
        serde_json::to_writer(&mut answers, &answer).map_err(|error| ServeError::Write(error.into()))?;
        answers.write_all(b"\n").and_then(|()| answers.flush()).map_err(ServeError::Write)?;
        line.clear();
    }
    Ok(())
}

/// The sessions, which outlive commands, and what it takes to open more of them.
struct Generator {
    runtime: Runtime,
    plan: Plan,
    seed: u64,
    sessions: Vec<Session>,
}

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("not a command of the load protocol")]
    Command(#[source] serde_json::Error),
    #[error("clients, sessions and rate have to be 1 at least, and the window 1 ms at least")]
    Zero,
    #[error("cannot prepare session {number}")]
    Session { number: usize, source: crate::failure::Failure },
    #[error("cannot set a timer up (timerfd)")]
    Timer(#[source] io::Error),
}

impl Generator {
    fn obey(&mut self, command: Command) -> Result<Answer, Refused> {
        match command {
            Command::Prepare { sessions } => {
                self.prepare(0, sessions)?;
                Ok(Answer::Prepared { sessions: self.sessions.len() as u32 })
            }
            Command::Drive { schedule, lead_in_ms, window_ms } => {
                self.drive(schedule, lead_in_ms, window_ms).map(|slice| Answer::Driven(Box::new(slice)))
            }
        }
    }

    fn drive(&mut self, schedule: Schedule, lead_in_ms: u64, window_ms: u64) -> Result<SliceResult, Refused> {
        let schedule = Checked::check(schedule).filter(|_| window_ms > 0).ok_or(Refused::Zero)?;
        let window = Window::new(Duration::from_millis(lead_in_ms), Duration::from_millis(window_ms));
        self.prepare(self.sessions.len(), schedule.sessions())?;
        let driven = &mut self.sessions[..schedule.sessions() as usize];
        driven.iter_mut().for_each(Session::drop_stale);
        self.runtime.block_on(schedule::drive(schedule, window, driven)).map_err(Refused::Timer)
    }

    /// Prepares the sessions from `first` on, as many as it takes to have `count`. One that cannot be prepared is not kept.
    fn prepare(&mut self, first: usize, count: u32) -> Result<(), Refused> {
        for number in first..count as usize {
            let mut opened = None;
            let session = match self.sessions.get_mut(number) {
                Some(session) => session,
                None => opened.insert(Session::new(&self.plan, number as u32, self.seed, REQUEST_TIMEOUT)),
            };
            let prepared = self.runtime.block_on(session.prepare());
            prepared.map_err(|source| Refused::Session { number, source })?;
            self.sessions.extend(opened);
        }
        Ok(())
    }
}
