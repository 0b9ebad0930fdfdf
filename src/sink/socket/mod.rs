//! Results to other processes: a unix socket of the kind `SOCK_SEQPACKET`, whole messages to each
//! reader that has connected. The format is in [`wire`]; `docs/socket.md` is for readers.
//!
//! The loop's thread sends, and never waits: a reader whose buffer is full does not get the
//! message, and one that has left is forgotten.
pub mod wire;

use std::{
    fs, io,
    os::{fd::OwnedFd, unix::fs::FileTypeExt as _, unix::fs::PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
        connect, listen, send, socket_with,
    },
};

use super::{Announced, Sink, SinkError, View};
use crate::frame::{FrameId, FrameResult, Gap};
use wire::{Encoder, Hello};

/// Most readers at a time; more are turned away.
pub const MAX_READERS: usize = 8;

/// A reader that has missed so many messages in a row is cut off: it may connect again.
const MISSED: u32 = 1000;

/// What went over the socket; read by any thread.
#[derive(Debug, Default)]
pub struct Traffic {
    readers: AtomicU64,
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Traffic {
    /// Readers now.
    pub fn readers(&self) -> u64 {
        self.readers.load(Relaxed)
    }

    /// Messages sent, counted for each reader.
    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Messages that a reader did not get because it is too slow.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

struct Reader {
    socket: OwnedFd,
    /// Messages in a row.
    missed: u32,
}

/// The sink; see the module.
pub struct ResultSocket {
    path: PathBuf,
    socket: OwnedFd,
    readers: heapless::Vec<Reader, MAX_READERS>,
    encoder: Encoder,
    hello: Vec<u8>,
    traffic: Arc<Traffic>,
}

fn seqpacket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::SEQPACKET;
    Ok(socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

impl ResultSocket {
    /// Makes the socket at `path`, for the owner and the group. One that an earlier process has
    /// left there is replaced, one in use is not.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn bind(path: &Path) -> Result<Self, SinkError> {
        let make = || {
            clear(path)?;
            let socket = seqpacket()?;
            bind(&socket, &SocketAddrUnix::new(path)?)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
            listen(&socket, MAX_READERS as i32)?;
            Ok(socket)
        };
        Ok(Self {
            socket: make().map_err(SinkError::io(path))?,
            path: path.into(),
            readers: heapless::Vec::new(),
            encoder: Encoder::default(),
            hello: Vec::new(),
            traffic: Arc::default(),
        })
    }

    /// What goes over it.
    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// Takes in who has connected, at most one at a time: the others wait in the kernel.
    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(socket) = accept_with(&self.socket, flags) else {
            return;
        };
        let mut reader = Reader { socket, missed: 0 };
        // One that there is no room for, or that has left already, is dropped and so closed.
        if tell(&self.traffic, &mut reader, &self.hello) {
            let _ = self.readers.push(reader);
        }
    }
}

/// An old socket that nobody serves is no obstacle.
fn clear(path: &Path) -> io::Result<()> {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !meta.file_type().is_socket() {
        let text = "is no socket, expected none or one that an earlier process left";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    match connect(&seqpacket()?, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path),
        _ => {
            let text = "another process serves this socket";
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
    }
}

/// Whether the reader is to be kept.
fn tell(traffic: &Traffic, reader: &mut Reader, message: &[u8]) -> bool {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match send(&reader.socket, message, flags) {
        Ok(_) => {
            reader.missed = 0;
            traffic.sent.fetch_add(1, Relaxed);
            true
        }
        Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {
            reader.missed += 1;
            traffic.dropped.fetch_add(1, Relaxed);
            reader.missed < MISSED
        }
        Err(_) => false,
    }
}

/// To all readers; those that have left are forgotten.
fn tell_all(
    traffic: &Traffic,
    readers: &mut heapless::Vec<Reader, MAX_READERS>,
    message: Option<&[u8]>,
) {
    if let Some(message) = message {
        readers.retain_mut(|reader| tell(traffic, reader, message));
    }
    traffic.readers.store(readers.len() as u64, Relaxed);
}

impl Sink for ResultSocket {
    fn begin(&mut self, announced: &Announced<'_>) -> Result<(), SinkError> {
        let pair = |s: crate::frame::Size| (s.width as u32, s.height as u32);
        let street = announced.shape.street.as_ref();
        let hello = Hello {
            version: env!("CARGO_PKG_VERSION").into(),
            camera: announced.camera,
            stereo_size: street.map(|s| pair(s.disparity.size())),
            mono_size: announced.mono.map(|(_, size)| pair(size)),
            logo_names: announced.logo_names.to_vec(),
        };
        // Names of logos have a bounded length; should they not fit, there are none.
        let message = self.encoder.hello(&hello);
        self.hello = message.map(<[u8]>::to_vec).unwrap_or_default();
        tell_all(&self.traffic, &mut self.readers, Some(&self.hello));
        Ok(())
    }

    fn frame(&mut self, _view: View<'_>, result: &FrameResult) -> Result<(), SinkError> {
        self.accept();
        if !self.readers.is_empty() {
            let message = self.encoder.frame(result);
            tell_all(&self.traffic, &mut self.readers, message);
        }
        Ok(())
    }

    fn gap(&mut self, id: FrameId, gap: Gap) -> Result<(), SinkError> {
        self.accept();
        if !self.readers.is_empty() {
            let message = self.encoder.missing(id, gap);
            tell_all(&self.traffic, &mut self.readers, message);
        }
        Ok(())
    }
}

impl Drop for ResultSocket {
    fn drop(&mut self) {
        // Should it stay, the next process replaces it.
        let _ = fs::remove_file(&self.path);
    }
}
