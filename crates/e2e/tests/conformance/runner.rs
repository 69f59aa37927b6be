//! Runs groups, each in a process of its own, a few at a time.

use crate::{
    table::{GROUPS, Group, Problem, Row},
    world::World,
};
use meshtoll_testbed::sandbox::Sandbox;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    env,
    error::Error,
    process::Command,
    sync::{Arc, Mutex, OnceLock},
    thread,
    time::{Duration, Instant},
};

/// Groups at once: they wait for much of their time.
const AT_ONCE: usize = 3;

/// A line of a group's output.
#[derive(Serialize, Deserialize)]
struct Line {
    row: String,
    /// What was seen, or why nothing could be.
    seen: Result<String, String>,
    took: Duration,
}

/// A group on a subject.
pub(crate) struct Run {
    group: &'static Group,
    subject: &'static str,
    result: OnceLock<Finished>,
}

struct Finished {
    lines: BTreeMap<String, Line>,
    stderr: String,
}

impl Run {
    pub(crate) fn new(group: &'static Group, subject: &'static str) -> Self {
        Self { group, subject, result: OnceLock::new() }
    }

    /// Waits for the group's end, and judges a row.
    pub(crate) fn outcome_of(&self, row: &Row) -> Result<(), String> {
        let expected = match row.expectation(self.subject) {
            Ok(expected) => expected,
            Err(why) => {
                println!("[{}] {} is not applicable: {why}", self.subject, row.name);
                return Ok(());
            }
        };
        let Finished { lines, stderr } = self.result.wait();
        let line = lines.get(row.name).ok_or_else(|| format!("the group ended before this row: {stderr}"))?;
        match &line.seen {
            Ok(seen) if seen == expected => Ok(()),
            Ok(seen) => Err(format!(
                "{}\n  seen:     {seen}\n  expected: {expected}\n  after {:?}; of the group: {stderr}",
                row.done, line.took
            )),
            Err(problem) => Err(format!("{}\n  {problem}\n  after {:?}; of the group: {stderr}", row.done, line.took)),
        }
    }

    fn run(&self) {
        let program = env::current_exe().unwrap();
        let output = Command::new(program).args(["--group", self.group.name, self.subject]).output().unwrap();
        let lines = String::from_utf8_lossy(&output.stdout);
        let lines = lines.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let stderr = format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        let lines = lines.map(|line| (line.row.clone(), line)).collect();
        let _ = self.result.set(Finished { lines, stderr });
    }
}

/// Starts the runs in the background.
pub(crate) fn start(mut runs: Vec<Arc<Run>>) {
    runs.reverse();
    let queue = Arc::new(Mutex::new(runs));
    for _ in 0..AT_ONCE {
        let queue = queue.clone();
        thread::spawn(move || {
            while let Some(run) = { queue.lock().unwrap().pop() } {
                run.run();
            }
        });
    }
}

/// A group on a subject, inside of its sandbox.
pub(crate) fn run_inside(group: &str, subject: &str, sandbox: Sandbox) -> Result<(), Problem> {
    let group = GROUPS.iter().find(|each| each.name == group).ok_or_else(|| format!("no group {group}"))?;
    let started = Instant::now();
    let mut world = World::bring_up(&group.mesh, subject, sandbox)?;
    eprintln!("{} on {subject}: up after {:?}", group.name, started.elapsed());
    for row in group.rows.iter().filter(|row| row.expectation(subject).is_ok()) {
        let started = Instant::now();
        let seen = (row.run)(&mut world).map_err(|problem| format!("{}; {}", told(&*problem), world.last_words()));
        let line = Line { row: row.name.to_owned(), seen, took: started.elapsed() };
        println!("{}", serde_json::to_string(&line)?);
    }
    Ok(())
}

/// An error with what is behind it.
pub(crate) fn told(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}
