//! What the service manager is told: `sd_notify(3)` over its datagram socket.
use std::{
    env,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::Duration,
};

/// The way to the service manager; nothing is sent where there is none.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// As the service manager has set the environment: `NOTIFY_SOCKET`, `WATCHDOG_USEC` and
    /// `WATCHDOG_PID`.
    pub fn from_environment() -> Self {
        let var = |name| env::var(name).ok();
        let pid = std::process::id().to_string();
        let ours = var("WATCHDOG_PID").is_none_or(|p| p == pid);
        let watchdog = var("WATCHDOG_USEC").filter(|_| ours);
        Self {
            socket: var("NOTIFY_SOCKET").and_then(|path| match connect(&path) {
                Ok(socket) => Some(socket),
                Err(e) => {
                    log::warn!("NOTIFY_SOCKET {path}: {e}; the service manager is told nothing");
                    None
                }
            }),
            watchdog: watchdog
                .and_then(|us| us.parse().ok())
                .filter(|&us| us > 0)
                .map(Duration::from_micros),
        }
    }

    /// To a socket, for a watchdog that bites after `watchdog`.
    pub fn to(socket: UnixDatagram, watchdog: Option<Duration>) -> Self {
        Self {
            socket: Some(socket),
            watchdog,
        }
    }

    /// How long the watchdog waits for a sign of life.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Tells, without waiting; what the manager does not take up now is lost. One line a fact,
    /// such as `READY=1`.
    pub fn tell(&self, facts: &str) {
        if let Some(socket) = &self.socket {
            // The watchdog judges by what arrives.
            let _ = socket.send(facts.as_bytes());
        }
    }
}

fn connect(path: &str) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match path.strip_prefix('@') {
        Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => socket.connect(path)?,
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_arrive_one_by_one() {
        let (here, there) = UnixDatagram::pair().unwrap();
        let notifier = Notifier::to(here, None);
        notifier.tell("READY=1");
        notifier.tell("WATCHDOG=1");
        let mut text = [0; 64];
        for fact in ["READY=1", "WATCHDOG=1"] {
            let n = there.recv(&mut text).unwrap();
            assert_eq!(&text[..n], fact.as_bytes());
        }
    }

    #[test]
    fn a_socket_of_a_name_and_one_of_a_path_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("@{}", path.display());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let address = SocketAddr::from_abstract_name(&name[1..]).unwrap();
        let by_name = UnixDatagram::bind_addr(&address).unwrap();
        for (server, address) in [(by_path, path.to_str().unwrap()), (by_name, &name)] {
            connect(address).unwrap().send(b"x").unwrap();
            assert_eq!(server.recv(&mut [0; 8]).unwrap(), 1);
        }
    }

    #[test]
    fn a_manager_that_does_not_read_is_not_waited_for() {
        let (here, _there) = UnixDatagram::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let notifier = Notifier::to(here, None);
        for _ in 0..10_000 {
            notifier.tell("WATCHDOG=1");
        }
    }

    #[test]
    fn without_a_manager_nothing_happens() {
        Notifier::default().tell("READY=1");
        assert_eq!(Notifier::default().watchdog(), None);
    }
}
