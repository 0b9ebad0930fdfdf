//! Results over the socket: what a reader gets, in Rust and in Python, and what a bad one can do.
use std::{
    io::Read as _,
    os::fd::OwnedFd,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use proptest::prelude::*;
use roadloop::{
    frame::{
        Camera, CameraState, Class, Foreground, ForegroundState, FrameId, FrameResult, Gap, Logo,
        LogoState, Logos, Motion, MotionState, Outcome, PixelKind, RoadOrigin, Size, StageTiming,
        Stixel, Stixels, Street, Timestamp,
    },
    sink::{
        Announced, Sink, SinkError, View,
        socket::{
            MAX_READERS, ResultSocket,
            wire::{Encoder, Frame, Hello, MAX_MESSAGE, Message, Missing, Stage, WireError},
        },
    },
};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};

const CAMERA: Camera = Camera {
    focal_px: 700.5,
    cx: 320.0,
    cy: 180.0,
    baseline_m: 0.25,
};

/// A result that has everything.
fn result(index: usize) -> FrameResult {
    let mut stixels = Stixels::new(3, 5, 4);
    let (counts, rooms) = stixels.columns_mut();
    counts.copy_from_slice(&[2, 0, 1]);
    for (u, room) in rooms.enumerate() {
        for (n, stixel) in room.iter_mut().enumerate() {
            *stixel = Stixel {
                class: [Class::Sky, Class::Object][n % 2],
                top: (10 * n) as u16,
                base: (10 * n + 9) as u16,
                disparity: (300 * u) as u16,
                confidence: 250,
            };
        }
    }
    let mut result: FrameResult = Street::new(Size::new(15, 8), stixels).into();
    result.id = FrameId {
        index,
        number: 7000 + index as u64,
        timestamp: Timestamp(1 << 40),
    };
    let street = result.street.as_mut().unwrap();
    street.road.slope = 0.36;
    street.road.origin = RoadOrigin::Measured;
    result.motion = Some(Motion::of(MotionState::SmallMotion));
    let mut foreground = Foreground::new(Size::new(15, 8));
    foreground.state = ForegroundState::Valid;
    result.foreground = Some(foreground);
    let mut logos = Logos::new();
    let logo = Logo {
        id: 3,
        template: 1,
        state: LogoState::Tracked,
        quad: [[1.5, 2.5], [3.0, 2.5], [3.0, 4.0], [1.5, 4.0]],
        velocity: [-0.5, 0.25],
        confidence: 99,
    };
    logos.push(logo).unwrap();
    result.logos = Some(logos);
    result.timing.start = Timestamp((1 << 40) + 5);
    result.timing.duration_ns = 12_345_678;
    result.timing.outcome = Outcome::Late;
    let stage = StageTiming {
        stage: "stereo",
        start_ns: 1000,
        duration_ns: 2_000_000,
        outcome: Outcome::OverBudget,
    };
    result.timing.stages.push(stage).unwrap();
    result.gaps.insert(Gap::Late);
    result.gaps.insert(Gap::RoadHeld);
    result.health.temperature_mdeg = Some(-4250);
    result.health.throttled = Some(true);
    result.health.cameras.left = Some(CameraState::Streaming);
    result
}

fn announced(shape: &FrameResult) -> Announced<'_> {
    static NAMES: std::sync::LazyLock<Vec<String>> =
        std::sync::LazyLock::new(|| vec!["ring".into(), "star".into()]);
    Announced {
        mono: Some((PixelKind::Grey8, Size::new(640, 360))),
        logo_names: &NAMES,
        ..Announced::street(CAMERA, shape, false)
    }
}

fn connect(path: &Path) -> OwnedFd {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

/// The next message; `None` at the end.
fn receive(socket: &OwnedFd) -> Option<Message> {
    let mut bytes = vec![0; MAX_MESSAGE];
    let (n, _) = rustix::net::recv(socket, &mut bytes[..], RecvFlags::empty()).ok()?;
    (n > 0).then(|| Message::decode(&bytes[..n]).unwrap())
}

fn frame(message: Message) -> Frame {
    match message {
        Message::Frame(frame) => frame,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_result_arrives_as_it_is() {
    let mut encoder = Encoder::default();
    let result = result(4);
    let frame = frame(Message::decode(encoder.frame(&result).unwrap()).unwrap());
    assert_eq!((frame.id.index, frame.id.number), (4, 7004));
    assert_eq!(frame.id.timestamp_ns, 1 << 40);
    assert_eq!(
        (frame.start_ns, frame.duration_ns),
        ((1 << 40) + 5, 12_345_678)
    );
    assert_eq!(frame.outcome, Outcome::Late);
    let stereo = Stage {
        name: "stereo".into(),
        start_ns: 1000,
        duration_ns: 2_000_000,
        outcome: Outcome::OverBudget,
    };
    assert_eq!(frame.stages, [stereo]);
    assert_eq!(frame.gaps, [Gap::Late, Gap::RoadHeld]);
    assert_eq!(frame.health, result.health);
    let street = result.street.as_ref().unwrap();
    assert_eq!(frame.road, Some(street.road));
    let lists = frame.stixels.unwrap();
    assert_eq!((lists.stixel_width, lists.overflowed), (5, 0));
    let columns: Vec<&[Stixel]> = (0..3).map(|u| street.stixels.column(u)).collect();
    assert_eq!(lists.columns, columns);
    assert!(!frame.stixels_left_out);
    assert_eq!(frame.motion, result.motion);
    assert_eq!(frame.foreground, Some(ForegroundState::Valid));
    assert_eq!(frame.logos.unwrap(), *result.logos.as_ref().unwrap());
}

#[test]
fn what_a_drive_does_not_have_is_none() {
    let mut encoder = Encoder::default();
    let message = encoder.frame(&FrameResult::default()).unwrap();
    let frame = frame(Message::decode(message).unwrap());
    assert!(frame.stixels.is_none() && frame.road.is_none() && frame.motion.is_none());
    assert!(frame.logos.is_none() && frame.foreground.is_none() && !frame.stixels_left_out);
}

#[test]
fn stixels_that_do_not_fit_are_left_out_and_said_to_be() {
    let mut stixels = Stixels::new(1000, 5, 16);
    stixels.columns_mut().0.fill(16);
    let result: FrameResult = Street::new(Size::new(5000, 8), stixels).into();
    let mut encoder = Encoder::default();
    let message = encoder.frame(&result).unwrap();
    assert!(message.len() <= MAX_MESSAGE);
    let frame = frame(Message::decode(message).unwrap());
    assert!(frame.stixels_left_out && frame.stixels.is_none() && frame.road.is_some());
}

#[test]
fn damaged_messages_are_told_apart() {
    let mut encoder = Encoder::default();
    let whole = encoder.missing(FrameId::default(), Gap::Dropped).unwrap();
    let id = FrameId::default().into();
    let gap = Gap::Dropped;
    let missing = Message::Missing(Missing { id, gap });
    assert_eq!(Message::decode(whole), Ok(missing));
    let with = |at: usize, byte: u8| {
        let mut bytes = whole.to_vec();
        bytes[at] = byte;
        Message::decode(&bytes).unwrap_err()
    };
    assert!(matches!(with(0, b'X'), WireError::Magic(_)));
    assert_eq!(with(4, 9), WireError::Version(9));
    assert_eq!(with(6, 9), WireError::Kind(9));
    assert!(matches!(with(8, 99), WireError::Length { .. }));
    assert!(matches!(with(16, 1), WireError::Crc { .. }));
    let short = Message::decode(&whole[..15]).unwrap_err();
    assert!(matches!(short, WireError::Length { .. }));
    let cut = Message::decode(&whole[..whole.len() - 1]).unwrap_err();
    assert!(matches!(cut, WireError::Length { .. }));
}

/// Any payload under a head that fits it.
fn sealed(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"RLFR\x01\x00".to_vec();
    bytes.extend(kind.to_le_bytes());
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(crc32fast::hash(payload).to_le_bytes());
    bytes.extend(payload);
    bytes
}

proptest! {
    #[test]
    fn hostile_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = Message::decode(&bytes);
        for kind in 0..5 {
            let _ = Message::decode(&sealed(kind, &bytes));
        }
    }

    #[test]
    fn changed_bytes_of_a_result_do_no_harm(at in 0usize..400, byte in any::<u8>()) {
        let mut encoder = Encoder::default();
        let mut payload = encoder.frame(&result(1)).unwrap()[16..].to_vec();
        let at = at % payload.len();
        payload[at] = byte;
        let _ = Message::decode(&sealed(2, &payload));
    }
}

#[test]
fn each_reader_is_greeted_and_then_gets_every_result() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.sock");
    let mut socket = ResultSocket::bind(&path).unwrap();
    let shape = result(0);
    socket.begin(&announced(&shape)).unwrap();
    let first = connect(&path);
    socket.frame(View::default(), &result(0)).unwrap();
    let second = connect(&path);
    socket.frame(View::default(), &result(1)).unwrap();
    socket.gap(FrameId::default(), Gap::CameraLost).unwrap();
    assert_eq!(socket.traffic().readers(), 2);
    drop(socket);
    for (reader, indices) in [(first, &[0u64, 1][..]), (second, &[1])] {
        let hello = Hello {
            version: env!("CARGO_PKG_VERSION").into(),
            camera: Some(CAMERA),
            stereo_size: Some((15, 8)),
            mono_size: Some((640, 360)),
            logo_names: vec!["ring".into(), "star".into()],
        };
        assert_eq!(receive(&reader), Some(Message::Hello(hello)));
        for &index in indices {
            assert_eq!(frame(receive(&reader).unwrap()).id.index, index);
        }
        let lost = receive(&reader).unwrap();
        assert!(matches!(lost, Message::Missing(m) if m.gap == Gap::CameraLost));
        assert_eq!(receive(&reader), None);
    }
    assert!(!path.exists());
}

#[test]
fn readers_that_do_not_read_or_leave_hold_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.sock");
    let mut socket = ResultSocket::bind(&path).unwrap();
    socket.begin(&announced(&result(0))).unwrap();
    let never_reads = connect(&path);
    let leaves = connect(&path);
    for index in 0..2 {
        socket.frame(View::default(), &result(index)).unwrap();
    }
    assert_eq!(socket.traffic().readers(), 2);
    drop(leaves);
    // Enough for the buffer to fill, and for the one that reads nothing to be cut off.
    let mut index = 2;
    while socket.traffic().readers() > 0 {
        socket.frame(View::default(), &result(index)).unwrap();
        index += 1;
        assert!(index < 1_000_000);
    }
    assert!(socket.traffic().dropped() >= 1000);
    drop(never_reads);
    // There is room for new ones, up to the limit.
    let more: Vec<OwnedFd> = (0..=MAX_READERS).map(|_| connect(&path)).collect();
    for _ in 0..=MAX_READERS {
        socket.frame(View::default(), &result(index)).unwrap();
    }
    assert_eq!(socket.traffic().readers(), MAX_READERS as u64);
    drop(more);
}

#[test]
fn a_socket_in_use_or_another_file_is_left_alone_and_an_old_one_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.sock");
    let refused = |path: &Path| match ResultSocket::bind(path) {
        Err(SinkError::Io { source, .. }) => source.to_string(),
        other => panic!("{:?}", other.map(|_| ())),
    };
    std::fs::write(&path, "mine").unwrap();
    assert!(refused(&path).contains("no socket"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    std::fs::remove_file(&path).unwrap();
    // One that a killed process has left.
    drop(std::os::unix::net::UnixDatagram::bind(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
    {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let old = rustix::net::socket(family, kind, None).unwrap();
        rustix::net::bind(&old, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    }
    let socket = ResultSocket::bind(&path).unwrap();
    assert!(refused(&path).contains("another process"));
    drop(socket);
}

/// The values of the reader in Python are those that were sent.
#[test]
fn the_example_in_python_reads_the_same() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no python3");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.sock");
    let mut socket = ResultSocket::bind(&path).unwrap();
    socket.begin(&announced(&result(0))).unwrap();
    let mut reader = Command::new("python3")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/examples/read_results.py"
        ))
        .arg(&path)
        .arg("3")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    while socket.traffic().readers() == 0 && reader.try_wait().unwrap().is_none() {
        socket
            .frame(View::default(), &FrameResult::default())
            .unwrap();
        thread::yield_now();
    }
    // The first that it gets after its greeting is of the loop above.
    socket.frame(View::default(), &result(9)).unwrap();
    let mut text = String::new();
    reader
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(reader.wait().unwrap().success());
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [hello, empty, full] = &lines[..] else {
        panic!("{text}");
    };
    assert_eq!(hello["camera"]["focal_px"], 700.5);
    assert_eq!(hello["logo_names"][1], "star");
    assert_eq!(empty["kind"], "frame");
    assert!(empty["stixels"].is_null());
    assert_eq!(full["id"]["number"], 7009);
    assert_eq!(full["id"]["timestamp_ns"], 1u64 << 40);
    assert_eq!(full["stages"][0]["name"], "stereo");
    assert_eq!(full["stages"][0]["outcome"], "over_budget");
    assert_eq!(full["gaps"], serde_json::json!(["late", "road_held"]));
    assert_eq!(full["health"]["temperature_mdeg"], -4250);
    assert_eq!(full["health"]["cameras"]["left"], "streaming");
    assert_eq!(full["road"]["origin"], "measured");
    assert_eq!(full["stixels"]["columns"][0][1]["class"], "object");
    assert_eq!(full["stixels"]["columns"][2][0]["disparity"], 600);
    assert_eq!(full["motion"]["state"], "small_motion");
    assert_eq!(full["foreground"], "valid");
    assert_eq!(full["logos"][0]["quad"][2], serde_json::json!([3.0, 4.0]));
    assert_eq!(full["logos"][0]["confidence"], 99);
}
