//! Reads the results of a running roadloop, a line a message:
//! `cargo run --example read_results -- /run/roadloop/results.sock [COUNT]`
use std::error::Error;

use roadloop::sink::socket::wire::{MAX_MESSAGE, Message};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: read_results SOCKET [COUNT]")?;
    let count = args.next().map_or(Ok(usize::MAX), |n| n.parse())?;
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path.as_str())?)?;
    let mut bytes = vec![0; MAX_MESSAGE];
    for _ in 0..count {
        let (n, _) = rustix::net::recv(&socket, &mut bytes[..], RecvFlags::empty())?;
        if n == 0 {
            eprintln!("roadloop has ended, or has cut off a reader that is too slow");
            break;
        }
        match Message::decode(&bytes[..n])? {
            Message::Hello(hello) => println!(
                "roadloop {}: stereo {:?}, mono {:?}, camera {:?}",
                hello.version, hello.stereo_size, hello.mono_size, hello.camera
            ),
            Message::Frame(frame) => {
                let stixels = frame.stixels.map(|s| s.columns.iter().map(Vec::len).sum());
                println!(
                    "frame {} (the camera's {}) of {:.6} s: {:.1} ms, {:?} stixels, road {:?}, motion {:?}, {} logos, gaps {:?}",
                    frame.id.index,
                    frame.id.number,
                    frame.id.timestamp_ns as f64 / 1e9,
                    frame.duration_ns as f64 / 1e6,
                    stixels.unwrap_or(0usize),
                    frame.road.map(|road| road.horizon_row),
                    frame.motion.map(|motion| motion.state),
                    frame.logos.map_or(0, |logos| logos.len()),
                    frame.gaps
                );
            }
            Message::Missing(missing) => {
                println!(
                    "frame {} (the camera's {}) of {:.6} s: {}",
                    missing.id.index,
                    missing.id.number,
                    missing.id.timestamp_ns as f64 / 1e9,
                    missing.gap
                );
            }
        }
    }
    Ok(())
}
