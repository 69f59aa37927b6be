//! Waiting until processes are ready, and asking them questions from inside their pods.

use crate::{
    http::{self, HttpError},
    network::within,
    pod::PodId,
    process::ProcessId,
    testbed::{Testbed, TestbedError},
};
use meshtoll_model::process::Ready;
use std::{
    net::{Ipv4Addr, SocketAddrV4, TcpStream},
    time::{Duration, Instant},
};

/// Between two looks: sockets of another process cannot be waited for, only tried.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// For one try of a readiness check, on loopback.
const TRY_TIMEOUT: Duration = Duration::from_secs(1);
/// For an administration interface's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

impl Testbed {
    /// Waits until every one of these processes is ready. Fails at once when one of them ends, or when the run is interrupted.
    pub fn wait_ready(&mut self, processes: &[ProcessId], timeout: Duration) -> Result<(), TestbedError> {
        let started = Instant::now();
        let mut waiting = processes.to_vec();
        loop {
            let mut still = Vec::new();
            for id in waiting {
                self.check_process(id)?;
                if !self.is_ready(id)? {
                    still.push(id);
                }
            }
            waiting = still;
            let Some(first) = waiting.first() else { return Ok(()) };
            if started.elapsed() >= timeout {
                return Err(TestbedError::NotReady {
                    hops: waiting.iter().map(|id| self.hop(*id).as_str()).collect::<Vec<_>>().join(", "),
                    timeout,
                    ready: self.processes[first.0].ready.clone(),
                    stderr: self.processes[first.0].last_words(),
                });
            }
            if self.interruption.wait(LOOK_EVERY) {
                return Err(TestbedError::Interrupted);
            }
        }
    }

    fn is_ready(&self, id: ProcessId) -> Result<bool, TestbedError> {
        let process = &self.processes[id.0];
        let net = &self.pods[process.pod.0].net;
        Ok(match &process.ready {
            Ready::Started => true,
            Ready::Tcp(port) => {
                let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, *port).into();
                within(net, || TcpStream::connect_timeout(&address, TRY_TIMEOUT).is_ok())?
            }
            Ready::Http { port, path } => {
                let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, *port);
                within(net, || http::get(address, path, TRY_TIMEOUT).is_ok())?
            }
        })
    }

    /// Does `work` in a pod's network: what a test or a tool wants to say or hear from there. Sockets that it makes stay there.
    pub fn within<T: Send>(&self, pod: PodId, work: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        Ok(within(&self.pods[pod.0].net, work)?)
    }

    /// What `GET path` on 127.0.0.1:`port` inside the pod answers, if it answers 200: how administration interfaces are asked
    /// for counters.
    pub fn http_get(&self, pod: PodId, port: u16, path: &str) -> Result<String, TestbedError> {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let pod = &self.pods[pod.0];
        within(&pod.net, || http::get(address, path, ANSWER_TIMEOUT))?.map_err(|source: HttpError| TestbedError::Http {
            pod: pod.name.clone(),
            port,
            path: path.to_owned(),
            source,
        })
    }
}
