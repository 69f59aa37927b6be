//! A session: one user of the application, with connections and a scenario of its own.

use crate::{
    client::{Answer, Connection},
    failure::Failure,
    scenario::{Plan, Request, Scenario},
};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

/// How long a request may take, connecting included, before it counts as failed.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// One user of the application, who has one request outstanding at most.
pub(crate) struct Session {
    scenario: Box<dyn Scenario>,
    request: Request,
    /// One a service address; none where it was never opened, failed, or the server ended it.
    connections: Vec<(SocketAddr, Option<Connection>)>,
    /// One for all connections of the session, since only one of them is in use at a time.
    buffer: Vec<u8>,
    timeout: Duration,
}

/// One request, over.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// The scenario's name for what was asked.
    pub(crate) operation: &'static str,
    /// When it was sent; a connection that had to be opened first was opened after that.
    pub(crate) sent: Instant,
    /// When its answer was complete, or it had failed.
    pub(crate) answered: Instant,
    /// Bytes of the response's body.
    pub(crate) outcome: Result<u64, Failure>,
}

impl Session {
    /// The session of this number within a plan, not connected yet.
    pub(crate) fn new(plan: &Plan, number: u32, seed: u64, timeout: Duration) -> Self {
        let connections = plan.addresses().iter().map(|address| (*address, None)).collect();
        Self {
            scenario: plan.session(number, seed),
            request: Request::default(),
            connections,
            buffer: Vec::new(),
            timeout,
        }
    }

    /// Opens what is not open, and sends requests until the scenario is set up (logged in).
    pub(crate) async fn prepare(&mut self) -> Result<(), Failure> {
        self.drop_stale();
        for (address, connection) in self.connections.iter_mut().filter(|(_, connection)| connection.is_none()) {
            let opened = tokio::time::timeout(self.timeout, Connection::open(*address)).await;
            *connection = Some(opened.unwrap_or(Err(Failure::Timeout))?);
        }
        while !self.scenario.is_set_up() {
            self.transact().await.outcome?;
        }
        Ok(())
    }

    /// Forgets connections that the server ended meanwhile, so that the next request opens new ones instead of failing.
    pub(crate) fn drop_stale(&mut self) {
        for (address, connection) in &mut self.connections {
            if connection.take_if(|connection| connection.is_stale()).is_some() {
                tracing::info!(%address, "the server ended an idle connection");
            }
        }
    }

    /// Sends the scenario's next request and waits for its answer.
    ///
    /// After a failure the connection is given up, and the scenario starts anew.
    pub(crate) async fn transact(&mut self) -> Transaction {
        self.scenario.next(&mut self.request);
        let operation = self.request.operation();
        let sent = Instant::now();
        let exchanged = tokio::time::timeout(self.timeout, self.exchange()).await.unwrap_or(Err(Failure::Timeout));
        let answered = Instant::now();
        let outcome = exchanged.and_then(|answer| {
            let response = answer.within(&self.buffer);
            if !(200..300).contains(&response.status) {
                return Err(Failure::Status(response.status));
            }
            self.scenario.answered(&response)?;
            Ok(response.body.len() as u64)
        });
        if let Err(failure) = &outcome {
            tracing::debug!(operation, reason = crate::failure::chain(failure), "request failed");
            self.connections[self.request.connection()].1 = None;
            self.scenario.restart();
        }
        Transaction { operation, sent, answered, outcome }
    }

    async fn exchange(&mut self) -> Result<Answer, Failure> {
        let (address, kept) = &mut self.connections[self.request.connection()];
        // Taken out while in use, so that neither an error nor a timeout leaves one behind in the middle of an answer.
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => Connection::open(*address).await?,
        };
        let answer = connection.exchange(self.request.bytes(), &mut self.buffer).await?;
        if answer.keeps_alive() {
            *kept = Some(connection);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        failure::FailureKind,
        scenario::{GetConfig, ScenarioConfig, Target},
    };
    use std::net::TcpListener;

    #[tokio::test(flavor = "current_thread")]
    async fn a_server_that_never_answers_is_a_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target { address: listener.local_addr().unwrap(), host: "silent".to_owned() };
        let config = ScenarioConfig::Get(GetConfig { target, path: "/".to_owned() });
        let mut session = Session::new(&config.check().unwrap(), 0, 1, Duration::from_millis(50));
        let transaction = session.transact().await;
        assert_eq!(transaction.outcome.unwrap_err().kind(), FailureKind::Timeout);
        assert!(transaction.answered - transaction.sent >= Duration::from_millis(50));
        assert!(session.connections[0].1.is_none(), "the answer to come must not meet another request");
    }
}
