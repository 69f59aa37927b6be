//! Closed loop: every session sends its next request when the one before is over.

use super::Slice;
use crate::{failure::FailureKind, session::Session};
use futures_util::{StreamExt, stream::FuturesUnordered};
use std::time::Duration;

/// Wait after a connection could not be opened: refused at once, a closed loop would try again without end and
/// take the CPU time that is being measured.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);

/// Drives every session with one request outstanding.
pub(super) async fn drive(sessions: &mut [Session], slice: &Slice) {
    let clients: FuturesUnordered<_> = sessions.iter_mut().map(|session| client(session, slice)).collect();
    clients.collect::<()>().await;
}

async fn client(session: &mut Session, slice: &Slice) {
    while !slice.window.is_over(slice.now()) {
        let transaction = session.transact().await;
        slice.record(slice.times(&transaction).sent, &transaction);
        if transaction.outcome.is_err_and(|failure| failure.kind() == FailureKind::Connect) {
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }
}
