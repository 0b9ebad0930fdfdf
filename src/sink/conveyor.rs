//! Boxes that go round between the loop, which fills them, and a thread that writes what is in
//! them.
//!
//! A mutex and two condition variables rather than channels: a channel allocates when a thread
//! waits for the first time, and that may be in any frame.
use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

#[derive(Debug)]
struct State<T> {
    free: Vec<Box<T>>,
    /// Filled, oldest first.
    queue: VecDeque<Box<T>>,
    /// No more will be filled.
    closed: bool,
    /// The writing end is gone.
    gone: bool,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    /// A box came back, or none will.
    freed: Condvar,
    /// A box was filled, or none will be.
    filled: Condvar,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that fills.
#[derive(Debug)]
pub struct Filler<T>(Arc<Shared<T>>);

/// The end that writes: an iterator over filled boxes, in order, that waits for the next.
#[derive(Debug)]
pub struct Writer<T>(Arc<Shared<T>>);

/// The writing end is gone.
#[derive(Debug, PartialEq, Eq)]
pub struct Gone;

/// A conveyor with these boxes, all free.
pub fn conveyor<T>(boxes: Vec<Box<T>>) -> (Filler<T>, Writer<T>) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            queue: VecDeque::with_capacity(boxes.len()),
            free: boxes,
            closed: false,
            gone: false,
        }),
        freed: Condvar::new(),
        filled: Condvar::new(),
    });
    (Filler(shared.clone()), Writer(shared))
}

impl<T> Filler<T> {
    /// A free box, waiting until there is one.
    ///
    /// # Errors
    /// When none will come.
    pub fn wait(&self) -> Result<Box<T>, Gone> {
        let state = self.0.state();
        let waits = |s: &mut State<T>| s.free.is_empty() && !s.gone;
        let mut state = self
            .0
            .freed
            .wait_while(state, waits)
            .unwrap_or_else(PoisonError::into_inner);
        if state.gone {
            return Err(Gone);
        }
        state.free.pop().ok_or(Gone)
    }

    /// A free box, if there is one now.
    ///
    /// # Errors
    /// As [`Filler::wait`].
    pub fn take(&self) -> Result<Option<Box<T>>, Gone> {
        let mut state = self.0.state();
        if state.gone {
            return Err(Gone);
        }
        Ok(state.free.pop())
    }

    /// Passes a filled box on. Never waits for the writer: there is room for every box.
    ///
    /// # Errors
    /// As [`Filler::wait`].
    pub fn pass(&self, filled: Box<T>) -> Result<(), Gone> {
        let mut state = self.0.state();
        if state.gone {
            return Err(Gone);
        }
        state.queue.push_back(filled);
        drop(state);
        self.0.filled.notify_one();
        Ok(())
    }
}

impl<T> Drop for Filler<T> {
    /// The writer comes to its end after what was passed on.
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.filled.notify_all();
    }
}

impl<T> Writer<T> {
    /// Gives a written box back.
    pub fn give_back(&self, written: Box<T>) {
        self.0.state().free.push(written);
        self.0.freed.notify_one();
    }
}

/// What a writer gets that does not wait for ever.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<T> {
    /// The next filled box.
    Filled(Box<T>),
    /// None came in time.
    Nothing,
    /// No more will come.
    Closed,
}

impl<T> Writer<T> {
    /// The next filled box, waiting for it no longer than `most`.
    pub fn next_within(&self, most: Duration) -> Received<T> {
        let state = self.0.state();
        let waits = |s: &mut State<T>| s.queue.is_empty() && !s.closed;
        let (mut state, _) = self
            .0
            .filled
            .wait_timeout_while(state, most, waits)
            .unwrap_or_else(PoisonError::into_inner);
        match state.queue.pop_front() {
            Some(filled) => Received::Filled(filled),
            None if state.closed => Received::Closed,
            None => Received::Nothing,
        }
    }
}

impl<T> Iterator for &Writer<T> {
    type Item = Box<T>;

    fn next(&mut self) -> Option<Box<T>> {
        let state = self.0.state();
        let waits = |s: &mut State<T>| s.queue.is_empty() && !s.closed;
        let mut state = self
            .0
            .filled
            .wait_while(state, waits)
            .unwrap_or_else(PoisonError::into_inner);
        state.queue.pop_front()
    }
}

impl<T> Drop for Writer<T> {
    /// Also when the thread panics: who waits for a box is told.
    fn drop(&mut self) {
        self.0.state().gone = true;
        self.0.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread};

    #[test]
    fn boxes_come_out_in_order_and_go_round() {
        let (filler, writer) = conveyor(vec![Box::new(0), Box::new(0)]);
        let thread = thread::spawn(move || {
            let mut seen = Vec::new();
            for filled in &writer {
                seen.push(*filled);
                writer.give_back(filled);
            }
            seen
        });
        for n in 0..1000 {
            let mut free = filler.wait().unwrap();
            *free = n;
            filler.pass(free).unwrap();
        }
        drop(filler);
        assert_eq!(thread.join().unwrap(), (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn without_a_free_box_nothing_is_taken() {
        let (filler, writer) = conveyor(vec![Box::new(1)]);
        let only = filler.take().unwrap().unwrap();
        assert_eq!(filler.take(), Ok(None));
        filler.pass(only).unwrap();
        let back = (&writer).next().unwrap();
        writer.give_back(back);
        assert_eq!(filler.take(), Ok(Some(Box::new(1))));
    }

    #[test]
    fn a_writer_that_dies_is_noticed_by_who_waits() {
        let (filler, writer) = conveyor(vec![Box::new(1)]);
        let only = filler.wait().unwrap();
        let (waiting, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            waiting.send(()).unwrap();
            filler.wait().map(|_| ())
        });
        told.recv().unwrap();
        drop(writer);
        assert_eq!(thread.join().unwrap(), Err(Gone));
        drop(only);
    }
}
