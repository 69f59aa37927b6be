//! What a session asks for, one request after the other.

mod airline;
mod config;
mod fixed;
mod request;

pub use config::{AirlineConfig, AirlineServices, GetConfig, QueryConfig, ScenarioConfig, ScenarioError, Target};

pub(crate) use request::Request;

use crate::client::Response;
use std::{net::SocketAddr, rc::Rc};

/// The requests of one session.
pub(crate) trait Scenario {
    /// Writes the session's next request.
    fn next(&mut self, request: &mut Request);

    /// Is told the successful (2xx) answer to the request that [`Self::next`] wrote last.
    fn answered(&mut self, response: &Response<'_>) -> Result<(), UnexpectedAnswer>;

    /// Forgets everything, as a new user would begin: the request before had no good answer.
    fn restart(&mut self);

    /// Whether the session is past what has to come once, before anything else (a login).
    fn is_set_up(&self) -> bool;
}

/// A checked [`ScenarioConfig`]: makes sessions.
#[derive(Debug)]
pub(crate) struct Plan {
    addresses: Vec<SocketAddr>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Airline(Rc<airline::Plan>),
    Fixed(Request),
}

impl Plan {
    /// The services that a session connects to; requests name them by their place here.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The scenario of the session of this number. The same number and seed ask for the same, given the same answers.
    pub(crate) fn session(&self, number: u32, seed: u64) -> Box<dyn Scenario> {
        match &self.kind {
            Kind::Airline(plan) => Box::new(airline::Airline::new(Rc::clone(plan), number, seed)),
            Kind::Fixed(request) => Box::new(fixed::Fixed::new(request.clone())),
        }
    }
}

/// A success that is not what the scenario expects.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnexpectedAnswer {
    /// Not the JSON that the contract promises.
    #[error("the answer to `{operation}` is not the JSON that docs/AIRLINE.md promises")]
    Json {
        /// What was asked.
        operation: &'static str,
        /// Where it differs.
        source: serde_json::Error,
    },
    /// Something else that the contract promises is not there.
    #[error("the answer to `{operation}` lacks {what}")]
    Missing {
        /// What was asked.
        operation: &'static str,
        /// What is not there.
        what: &'static str,
    },
}
