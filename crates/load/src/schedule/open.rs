//! Open loop: requests are due at a fixed rate, whatever the answers.

use super::{Slice, due::due, timer::Timer};
use crate::session::Session;
use futures_util::{StreamExt, future::join, stream::FuturesUnordered};
use std::{cell::RefCell, collections::VecDeque, io, num::NonZeroU32, time::Duration};
use tokio::sync::Semaphore;

/// Drives the sessions at `rate` requests a second.
pub(super) async fn drive(rate: NonZeroU32, sessions: &mut [Session], slice: &Slice) -> io::Result<()> {
    let dispatch = Dispatch { requests: RefCell::new(VecDeque::new()), ready: Semaphore::new(0) };
    let count = sessions.len();
    let users: FuturesUnordered<_> = sessions.iter_mut().map(|session| user(session, &dispatch, slice)).collect();
    let pacing = async {
        let paced = pace(rate, &dispatch, slice).await;
        slice.recorder.borrow_mut().unsent(dispatch.stop(count));
        paced
    };
    join(pacing, users.collect::<()>()).await.0
}

/// Hands requests out as they become due, until the window is over.
async fn pace(rate: NonZeroU32, dispatch: &Dispatch, slice: &Slice) -> io::Result<()> {
    let timer = Timer::new()?;
    let mut index = 0;
    loop {
        let now = slice.now();
        while due(rate, index) <= now && !slice.window.is_over(due(rate, index)) {
            dispatch.offer(due(rate, index));
            index += 1;
        }
        if slice.window.is_over(now) {
            return Ok(());
        }
        let next = due(rate, index).min(slice.window.end());
        timer.wait(next.saturating_sub(slice.now())).await?;
    }
}

/// Sends what is handed to this session.
async fn user(session: &mut Session, dispatch: &Dispatch, slice: &Slice) {
    while let Some(due) = dispatch.next().await {
        let transaction = session.transact().await;
        slice.recorder.borrow_mut().was_late(due, slice.times(&transaction).sent);
        slice.record(due, &transaction);
    }
}

/// Requests that are due, and the sessions that wait for one.
struct Dispatch {
    /// Due times in order; `None` ends a session.
    requests: RefCell<VecDeque<Option<Duration>>>,
    /// One permit for each of `requests`. It serves those who wait in the order in which they came: so a request takes
    /// the session that is idle longest.
    ready: Semaphore,
}

impl Dispatch {
    /// Gives a due request to the session that is idle longest, or keeps it until one is idle.
    fn offer(&self, due: Duration) {
        self.requests.borrow_mut().push_back(Some(due));
        self.ready.add_permits(1);
    }

    /// The next request for a session that is idle now; `None` when there will be none.
    async fn next(&self) -> Option<Duration> {
        self.ready.acquire().await.ok()?.forget();
        self.requests.borrow_mut().pop_front().flatten()
    }

    /// Ends all sessions as they become idle. Returns how many requests found no idle session.
    fn stop(&self, sessions: usize) -> u64 {
        // Permits that are not given to a waiting session yet belong to the requests that came last.
        let waiting = self.ready.forget_permits(self.ready.available_permits());
        let mut requests = self.requests.borrow_mut();
        let handed_out = requests.len() - waiting;
        requests.truncate(handed_out);
        requests.extend(std::iter::repeat_n(None, sessions));
        self.ready.add_permits(sessions);
        waiting as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn serves_the_session_that_is_idle_longest() {
        let dispatch = Dispatch { requests: RefCell::new(VecDeque::new()), ready: Semaphore::new(0) };
        let served = RefCell::new(Vec::new());
        let waiting = |session: u32, requests: usize| {
            let (dispatch, served) = (&dispatch, &served);
            async move {
                for _ in 0..requests {
                    dispatch.next().await;
                    served.borrow_mut().push(session);
                }
            }
        };
        let offers = async {
            tokio::task::yield_now().await;
            for index in 0..4 {
                dispatch.offer(Duration::from_millis(index));
                tokio::task::yield_now().await;
            }
        };
        join(join(waiting(1, 2), waiting(2, 2)), offers).await;
        assert_eq!(served.into_inner(), [1, 2, 1, 2]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_found_no_session_is_counted_and_what_did_is_still_sent() {
        let dispatch = Dispatch { requests: RefCell::new(VecDeque::new()), ready: Semaphore::new(0) };
        let sent = RefCell::new(Vec::new());
        let session = async {
            while let Some(due) = dispatch.next().await {
                sent.borrow_mut().push(due.as_millis());
                tokio::task::yield_now().await; // busy while the others become due
            }
        };
        let pacing = async {
            tokio::task::yield_now().await;
            (1..=3).for_each(|ms| dispatch.offer(Duration::from_millis(ms)));
            dispatch.stop(1)
        };
        let ((), unsent) = join(session, pacing).await;
        assert_eq!((unsent, sent.into_inner()), (2, vec![1]));
    }
}
