//! One connection: bytes to messages, messages to replies, replies to bytes.

use crate::{
    commands::{Kind, answer},
    stats::Counters,
    store::Store,
    wire::{Decoded, WireError, decode},
};
use bytes::{Buf, BytesMut};
use std::{
    io,
    pin::pin,
    sync::{Mutex, PoisonError, atomic::Ordering::Relaxed},
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

/// Room for one read: a TLS record.
const READ_BYTES: usize = 16 * 1024;

/// Replies are sent when they are this much, before more messages are answered: a client that sends requests and reads
/// no replies would else fill the memory.
const FLUSH_BYTES: usize = 256 * 1024;

/// Buffers that grew beyond this are given back once they are empty.
const KEPT_BYTES: usize = 256 * 1024;

/// Why a connection ended before the client closed it in order.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    /// What the client sent is no message.
    #[error("client sent a malformed message")]
    Malformed(#[from] WireError),
    /// The client closed the connection within a message.
    #[error("client closed the connection after {0} bytes of a message")]
    Truncated(usize),
    /// The connection broke.
    #[error("connection broke")]
    Io(#[from] io::Error),
}

/// Answers messages until the client closes the connection, or `closing` is cancelled while none is being answered.
pub(crate) async fn serve_connection<S>(
    mut stream: S,
    id: i32,
    store: &Mutex<Store>,
    counters: &Counters,
    closing: &CancellationToken,
) -> Result<(), ConnectionError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut closed = pin!(closing.cancelled());
    let (mut input, mut output) = (BytesMut::with_capacity(READ_BYTES), Vec::new());
    loop {
        let received = tokio::select! {
            biased;
            () = &mut closed => 0,
            received = stream.read_buf(&mut input) => received?,
        };
        if received == 0 {
            let left = if closing.is_cancelled() { 0 } else { input.len() };
            // The client may be gone already; there is nothing left to tell it.
            let _ = stream.shutdown().await;
            return if left == 0 { Ok(()) } else { Err(ConnectionError::Truncated(left)) };
        }
        counters.bytes_in.fetch_add(received as u64, Relaxed);
        let needed = loop {
            let rest = answer_all(&mut input, &mut output, id, store, counters);
            if !output.is_empty() {
                stream.write_all(&output).await?;
                stream.flush().await?;
                counters.bytes_out.fetch_add(output.len() as u64, Relaxed);
                output.clear();
            }
            match rest? {
                Rest::Answered => {}
                Rest::Incomplete { needed } => break needed,
            }
        };
        if output.capacity() > KEPT_BYTES {
            output = Vec::new();
        }
        if input.is_empty() && input.capacity() > KEPT_BYTES {
            input = BytesMut::new();
        }
        // Room for what is announced grows with what arrives: the announcement alone takes no memory.
        let missing = needed.saturating_sub(input.len());
        input.reserve(missing.min(input.len()).max(READ_BYTES));
    }
}

/// What is left to do with the bytes received.
enum Rest {
    /// More messages may be complete; the replies have to be sent first.
    Answered,
    /// The next message is not complete; it needs this many bytes in all.
    Incomplete { needed: usize },
}

/// Answers the complete messages of `input` into `output`, up to a full buffer of replies.
fn answer_all(
    input: &mut BytesMut,
    output: &mut Vec<u8>,
    id: i32,
    store: &Mutex<Store>,
    counters: &Counters,
) -> Result<Rest, WireError> {
    while output.len() < FLUSH_BYTES {
        match decode(input)? {
            Decoded::Incomplete { needed } => return Ok(Rest::Incomplete { needed }),
            Decoded::Complete { message, length } => {
                let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
                match answer(&mut store, &message, id, output) {
                    Kind::Operation => counters.operations.fetch_add(1, Relaxed),
                    Kind::Housekeeping => counters.housekeeping.fetch_add(1, Relaxed),
                };
                drop(store);
                input.advance(length);
            }
        }
    }
    Ok(Rest::Answered)
}
