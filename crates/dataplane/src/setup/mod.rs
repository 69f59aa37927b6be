//! Setting a connection up: from accept to the moment when it can be relayed.

mod gateway;
mod opening;
mod sidecar;
mod stream;
mod upstream;

pub(crate) use gateway::Gateway;
pub(crate) use sidecar::{Inbound, Outbound};
pub(crate) use upstream::Dialer;

use crate::{
    relay::{Account, Established, Leg},
    settings::Settings,
    telemetry::{ConnectionRecord, Direction, ResponseFlag, UpstreamCounters},
};
use meshtoll_policy::authorization::{Decision, Denied, Permit};
use std::{
    borrow::Cow,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use stream::Stream;
use tokio::{net::TcpStream, sync::OwnedSemaphorePermit};

/// Why a connection is not relayed: the typed denial that ends in the access log and in metrics.
#[derive(Debug, thiserror::Error)]
#[error("{details}")]
pub(crate) struct Refusal {
    /// Envoy's flag for it.
    pub flag: ResponseFlag,
    /// Why, for people.
    pub details: Cow<'static, str>,
}

impl Refusal {
    pub(crate) fn new(flag: ResponseFlag, details: impl Into<Cow<'static, str>>) -> Self {
        Self { flag, details: details.into() }
    }

    fn downstream(details: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ResponseFlag::DownstreamProtocol, details)
    }

    fn no_route(details: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ResponseFlag::NoRoute, details)
    }
}

/// One way of setting connections up.
pub(crate) trait SetUp: Send + Sync + 'static {
    /// The direction, for records.
    const DIRECTION: Direction;

    /// Sets a connection up, and notes in its record what is learnt on the way.
    fn set_up(
        &self,
        stream: TcpStream,
        record: &mut ConnectionRecord,
    ) -> impl Future<Output = Result<Ready, Refusal>> + Send;
}

/// Sets a connection from `source` up with `way`. What cannot be relayed is closed, and its record says why.
pub(crate) async fn set_up<W: SetUp>(
    way: &W,
    stream: TcpStream,
    source: SocketAddr,
    slot: OwnedSemaphorePermit,
) -> Result<Established, Box<ConnectionRecord>> {
    let accepted = Instant::now();
    let mut record = Box::new(ConnectionRecord {
        direction: W::DIRECTION,
        source,
        source_identity: None,
        destination: stream.local_addr().unwrap_or(source),
        requested_host: None,
        upstream: None,
        connected: None,
        started: SystemTime::now(),
        duration: Duration::ZERO,
        sent_bytes: 0,
        received_bytes: 0,
        flag: ResponseFlag::None,
        details: None,
        audited: Vec::new(),
    });
    let refusal = match way.set_up(stream, &mut record).await {
        Ok(ready) => match ready.into_legs() {
            Ok(legs) => return Ok(legs.establish(record, accepted, slot)),
            Err(refusal) => refusal,
        },
        Err(refusal) => refusal,
    };
    record.duration = accepted.elapsed();
    record.flag = refusal.flag;
    record.details = Some(refusal.details.into());
    Err(record)
}

/// Where a connection that was redirected here was headed.
fn original_destination(
    stream: &TcpStream,
    own_port: u16,
    record: &mut ConnectionRecord,
) -> Result<SocketAddr, Refusal> {
    let destination = socket2::SockRef::from(stream).original_dst_v4().ok().and_then(|address| address.as_socket());
    // Relayed, what was opened to the proxy's own port would come back for ever.
    let destination = destination.filter(|destination| destination.port() != own_port);
    let direct = "it was opened to the proxy's own port, not redirected to it";
    let destination = destination.ok_or_else(|| Refusal::no_route(direct))?;
    record.destination = destination;
    Ok(destination)
}

/// What a connection needs to be relayed, besides its record.
pub(crate) struct Ready {
    downstream: Stream,
    prelude: Vec<u8>,
    dialed: upstream::Dialed,
}

struct Legs {
    downstream: Leg,
    upstream: Leg,
    prelude: Vec<u8>,
    address: SocketAddr,
    counters: Arc<UpstreamCounters>,
}

impl Ready {
    fn into_legs(self) -> Result<Legs, Refusal> {
        let failed = |error: std::io::Error| Refusal::new(ResponseFlag::Overflow, error.to_string());
        let upstream::Dialed { stream, address, counters } = self.dialed;
        let (downstream, upstream) = (self.downstream.into_leg().map_err(failed)?, stream.into_leg().map_err(failed)?);
        Ok(Legs { downstream, upstream, prelude: self.prelude, address, counters })
    }
}

impl Legs {
    fn establish(
        self,
        mut record: Box<ConnectionRecord>,
        accepted: Instant,
        slot: OwnedSemaphorePermit,
    ) -> Established {
        let Self { downstream, upstream, prelude, address, counters } = self;
        record.connected = Some(address);
        counters.opened();
        Established { downstream, upstream, prelude, account: Account { record, accepted, upstream: counters, slot } }
    }
}

/// Takes note of AUDIT rules, and of a denial.
fn decided(decision: Decision<'_>, record: &mut ConnectionRecord) -> Result<Permit, Refusal> {
    record.audited.extend(decision.audited.iter().map(|name| Box::from(*name)));
    decision.outcome.map_err(|denied| {
        let details = match denied {
            Denied::ByRule { rule } => Cow::from(format!("denied by AuthorizationPolicy {rule}")),
            Denied::NotAllowed => Cow::from("no ALLOW rule of an AuthorizationPolicy matches"),
        };
        Refusal::new(ResponseFlag::Unauthorized, details)
    })
}

/// What every connection is set up with.
#[derive(Clone)]
pub(crate) struct Means {
    /// Limits and times.
    pub settings: Arc<Settings>,
    /// Opens connections to upstreams.
    pub dialer: Arc<Dialer>,
    /// Handshakes and hellos that may be waited for at once.
    pub pending: Arc<tokio::sync::Semaphore>,
}

impl Means {
    /// A place among the connections that are being set up.
    fn pending(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Refusal> {
        let full = |_| Refusal::new(ResponseFlag::Overflow, "too many connections are being set up");
        self.pending.try_acquire().map_err(full)
    }
}
