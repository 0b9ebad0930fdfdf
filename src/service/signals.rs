//! What signals mean: SIGTERM and SIGINT end in order, SIGHUP asks for the state, SIGABRT is the
//! watchdog's, after which there is a last line to say.
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use signal_hook::{
    consts::{SIGABRT, SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
    low_level::emulate_default_handler,
};

use crate::frame_loop::{Clock as _, Monitor, MonotonicClock};

/// What signals have asked for.
#[derive(Debug, Default)]
pub struct Asked {
    /// To end in order.
    pub stop: AtomicBool,
    /// To say in the log how things are.
    pub state: AtomicBool,
}

/// Where the loop is, in words: what is left to say when the process is killed for hanging.
pub fn post_mortem(monitor: &Monitor) -> String {
    let sight = monitor.probe.look();
    let ms = MonotonicClock.now().since(sight.since) / 1_000_000;
    format!(
        "{} of frame {} has not ended for {ms} ms",
        sight.doing, sight.frame
    )
}

/// Listens for signals from now on, in a thread of its own.
///
/// # Errors
/// When the handlers or the thread are refused.
pub fn listen(monitor: &Arc<Monitor>, asked: &Arc<Asked>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGABRT])?;
    let (monitor, asked) = (Arc::clone(monitor), Arc::clone(asked));
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                match signal {
                    SIGHUP => asked.state.store(true, Relaxed),
                    SIGABRT => {
                        log::error!("aborted (by the watchdog?): {}", post_mortem(&monitor));
                        // Dies with a core dump, as it would have.
                        let _ = emulate_default_handler(SIGABRT);
                        std::process::abort();
                    }
                    _ if asked.stop.swap(true, Relaxed) => std::process::exit(130),
                    _ => log::info!("stopping; once more to end at once"),
                }
            }
        })?;
    Ok(())
}

/// A panic is told like any other error, with where the loop was.
pub fn tell_panics(monitor: &Arc<Monitor>) {
    let monitor = Arc::clone(monitor);
    std::panic::set_hook(Box::new(move |panic| {
        log::error!("{panic}; {}", post_mortem(&monitor));
    }));
}
