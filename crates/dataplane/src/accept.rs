//! Accepting: as long as there is room; and what becomes of a connection from there.

use crate::{
    relay::Strategy,
    setup::{SetUp, set_up},
    telemetry::Telemetry,
};
use nix::errno::Errno;
use std::{io, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    sync::{Notify, Semaphore},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long accepting rests when the process has no file descriptors left and no connection ends.
const PAUSE: Duration = Duration::from_millis(100);

/// What every listener shares.
pub(crate) struct House {
    /// Takes over what is set up.
    pub(crate) relay: Arc<dyn Strategy>,
    /// Hears of every end.
    pub(crate) telemetry: Arc<Telemetry>,
    /// Room for connections.
    pub(crate) slots: Arc<Semaphore>,
    /// Told whenever a connection ends.
    pub(crate) freed: Arc<Notify>,
    /// Connections that are being set up.
    pub(crate) tasks: TaskTracker,
}

/// Accepts until told to stop; the socket is closed then.
pub(crate) async fn accept<W: SetUp>(listener: TcpListener, way: Arc<W>, house: Arc<House>, stop: CancellationToken) {
    stop.run_until_cancelled_owned(async {
        loop {
            // Closed only with the process.
            let Ok(slot) = house.slots.clone().acquire_owned().await else { return };
            let (stream, source) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    drop(slot);
                    pause(&error, &house).await;
                    continue;
                }
            };
            let (way, house_of_task) = (way.clone(), house.clone());
            house.tasks.spawn(async move {
                let house = house_of_task;
                // Without it, small messages would wait for acknowledgements of earlier ones.
                let _ = stream.set_nodelay(true);
                match set_up(&*way, stream, source, slot).await {
                    Ok(established) => house.relay.adopt(established),
                    Err(record) => {
                        house.telemetry.ended(*record);
                        house.freed.notify_one();
                    }
                }
            });
        }
    })
    .await;
}

/// Waits for room when there are no file descriptors left; connections that were already accepted go on.
async fn pause(error: &io::Error, house: &House) {
    let errno = error.raw_os_error().map(Errno::from_raw);
    if matches!(errno, Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM)) {
        house.telemetry.metrics.accept_paused();
        tracing::warn!(%error, "accepting pauses until a connection ends");
        let _ = timeout(PAUSE, house.freed.notified()).await;
    }
}
