//! The event stream of turns: many listeners, none of which can slow a turn down.
//!
//! The turn publishes; each listener has its own queue. Deltas are dropped for a listener whose queue is full, everything
//! else is always queued, and a listener that lost deltas is told how many right before its next event. Numbering is the
//! turn's business; this file only carries.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use futures::Stream;
use futures::task::AtomicWaker;

use crate::types::{EventKind, TurnEvent};

/// Queued events above which a listener loses deltas: several seconds of a fast model.
pub const DEFAULT_DELTA_CAPACITY: usize = 1024;

/// Where a turn publishes and observers subscribe. Cheap to clone; streams end when the last clone is gone.
#[derive(Clone)]
pub struct EventBus {
    inner: Arc<Inner>,
}

struct Inner {
    delta_capacity: usize,
    listeners: Mutex<Vec<Weak<Listener>>>,
    /// Read without the lock, so that a turn nobody watches pays nothing.
    listening: Arc<AtomicUsize>,
}

struct Listener {
    queue: Mutex<Queue>,
    waker: AtomicWaker,
    is_closed: AtomicBool,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Arc<TurnEvent>>,
    /// One entry per turn that lost deltas: the header of the last lost one and how many.
    lost: Vec<(TurnEvent, u64)>,
}

impl Default for EventBus {
    fn default() -> Self {
        Self::new(DEFAULT_DELTA_CAPACITY)
    }
}

impl EventBus {
    /// A bus whose listeners lose deltas once `delta_capacity` events wait for them.
    pub fn new(delta_capacity: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                delta_capacity,
                listeners: Mutex::new(Vec::new()),
                listening: Arc::new(AtomicUsize::new(0)),
            }),
        }
    }

    /// A stream of everything published from now on.
    pub fn subscribe(&self) -> EventStream {
        let listener = Arc::new(Listener {
            queue: Mutex::new(Queue::default()),
            waker: AtomicWaker::new(),
            is_closed: AtomicBool::new(false),
        });
        locked(&self.inner.listeners).push(Arc::downgrade(&listener));
        self.inner.listening.fetch_add(1, Ordering::AcqRel);
        EventStream { listener, listening: Arc::clone(&self.inner.listening) }
    }

    /// Whether anybody listens; if not, an event need not be built.
    pub fn has_listeners(&self) -> bool {
        self.inner.listening.load(Ordering::Acquire) > 0
    }

    /// Hands one event to every listener. Never waits for any of them.
    pub fn publish(&self, event: TurnEvent) {
        let event = Arc::new(event);
        locked(&self.inner.listeners).retain(|listener| match listener.upgrade() {
            Some(listener) => {
                listener.push(&event, self.inner.delta_capacity);
                true
            }
            None => false,
        });
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for listener in locked(&self.listeners).iter().filter_map(Weak::upgrade) {
            listener.is_closed.store(true, Ordering::Release);
            listener.waker.wake();
        }
    }
}

impl Listener {
    fn push(&self, event: &Arc<TurnEvent>, delta_capacity: usize) {
        let mut queue = locked(&self.queue);
        let same_turn =
            |lost: &TurnEvent| lost.turn_id == event.turn_id && lost.session_id == event.session_id;
        let known = queue.lost.iter().position(|(lost, _)| same_turn(lost));
        if event.kind.is_delta() && queue.events.len() >= delta_capacity {
            match known.and_then(|at| queue.lost.get_mut(at)) {
                Some((lost, dropped)) => {
                    lost.seq = event.seq;
                    lost.time_ms = event.time_ms;
                    *dropped += 1;
                }
                None => queue.lost.push((
                    TurnEvent { kind: EventKind::Lagged { dropped: 0 }, ..TurnEvent::clone(event) },
                    1,
                )),
            }
            return;
        }
        if let Some(at) = known {
            let (mut lost, dropped) = queue.lost.swap_remove(at);
            lost.kind = EventKind::Lagged { dropped };
            queue.events.push_back(Arc::new(lost));
        }
        queue.events.push_back(Arc::clone(event));
        drop(queue);
        self.waker.wake();
    }
}

/// The listener's end: `next().await`, or any adapter of [`futures::Stream`]. Dropping it unsubscribes.
pub struct EventStream {
    listener: Arc<Listener>,
    listening: Arc<AtomicUsize>,
}

impl EventStream {
    /// The next event; `None` once the bus is gone and the queue is empty.
    pub async fn next(&mut self) -> Option<Arc<TurnEvent>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// The next event if one already waits.
    pub fn try_next(&mut self) -> Option<Arc<TurnEvent>> {
        locked(&self.listener.queue).events.pop_front()
    }
}

impl Stream for EventStream {
    type Item = Arc<TurnEvent>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(event) = locked(&self.listener.queue).events.pop_front() {
            return Poll::Ready(Some(event));
        }
        self.listener.waker.register(context.waker());
        // Closed is read before the queue: what was queued before closing is still delivered.
        let is_closed = self.listener.is_closed.load(Ordering::Acquire);
        match locked(&self.listener.queue).events.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if is_closed => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.listening.fetch_sub(1, Ordering::AcqRel);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock was held leaves a queue that is still a queue.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{AgentPath, SessionId, TurnEnd, TurnId};

    fn event(turn: &str, seq: u64, kind: EventKind) -> TurnEvent {
        TurnEvent {
            session_id: SessionId::new("s"),
            turn_id: TurnId::new(turn),
            agent: AgentPath::root(),
            seq,
            time_ms: 0,
            kind,
        }
    }

    fn delta(seq: u64) -> TurnEvent {
        event("t", seq, EventKind::TextDelta { text: "x".to_owned() })
    }

    #[tokio::test]
    async fn a_slow_listener_loses_deltas_only_and_is_told_how_many() {
        let bus = EventBus::new(2);
        let mut stream = bus.subscribe();
        for seq in 1..=5 {
            bus.publish(delta(seq));
        }
        bus.publish(event("other", 1, EventKind::IterationStarted { iteration: 1 }));
        bus.publish(event("t", 6, EventKind::Ended(TurnEnd::Completed { text: String::new() })));
        drop(bus);
        let mut seen = Vec::new();
        while let Some(event) = stream.next().await {
            seen.push((event.turn_id.to_string(), event.seq, event.kind.clone()));
        }
        let seqs: Vec<_> = seen.iter().map(|(turn, seq, _)| (turn.as_str(), *seq)).collect();
        assert_eq!(seqs, [("t", 1), ("t", 2), ("other", 1), ("t", 5), ("t", 6)]);
        assert!(matches!(seen.get(3), Some((_, _, EventKind::Lagged { dropped: 3 }))));
    }

    #[tokio::test]
    async fn a_dropped_listener_is_forgotten() {
        let bus = EventBus::default();
        assert!(!bus.has_listeners());
        let stream = bus.subscribe();
        assert!(bus.has_listeners());
        drop(stream);
        assert!(!bus.has_listeners());
        bus.publish(delta(1));
        assert!(locked(&bus.inner.listeners).is_empty());
    }

    #[tokio::test]
    async fn a_waiting_listener_wakes_up() {
        let bus = EventBus::default();
        let mut stream = bus.subscribe();
        let waiting = tokio::spawn(async move { stream.next().await.map(|event| event.seq) });
        tokio::task::yield_now().await;
        bus.publish(delta(7));
        assert!(matches!(waiting.await, Ok(Some(7))));
    }
}
