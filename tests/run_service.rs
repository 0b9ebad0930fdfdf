//! `roadloop run` as the service manager sees it, with the synthetic street for cameras: READY,
//! watchdog, signals, exit statuses, log and metrics.
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::{fs::MetadataExt as _, net::UnixDatagram, process::ExitStatusExt as _},
    path::Path,
    process::{Child, ChildStderr, Command, Output, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Far beyond what any of it takes: what does not come at all fails instead of hanging.
const LONG: Duration = Duration::from_secs(120);

const STREET: &str = "
[source]
kind = 'synthetic'
rate_hz = 20.0
[synthetic]
width = 96
height = 64
frames = 4
mono = false
[stereo]
disparities = 64
[frame_loop]
deadline_us = 2000000
[output]
metrics = 'roadloop.prom'
";

fn folder(more: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("roadloop.toml"), format!("{STREET}{more}")).unwrap();
    dir
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roadloop"));
    command
        .args(["run", "--config"])
        .arg(dir.join("roadloop.toml"))
        .env("RUST_LOG", "info")
        .env_remove("NOTIFY_SOCKET")
        .env_remove("JOURNAL_STREAM");
    command
}

fn run(more: &str) -> (TempDir, Output, String) {
    let dir = folder(more);
    let output = command(dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (dir, output, text)
}

/// The value of a metric, by the whole of its name.
fn metric(dir: &Path, name: &str) -> f64 {
    let text = fs::read_to_string(dir.join("roadloop.prom")).unwrap();
    let line = text
        .lines()
        .find(|l| l.rsplit_once(' ').is_some_and(|(n, _)| n == name));
    let value = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
    value.rsplit(' ').next().unwrap().parse().unwrap()
}

/// A service under a service manager.
struct Service {
    child: Child,
    manager: UnixDatagram,
    stderr: BufReader<ChildStderr>,
    _dir: TempDir,
}

impl Service {
    fn start(more: &str, watchdog: Option<Duration>) -> Self {
        let dir = folder(more);
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(LONG)).unwrap();
        let mut command = command(dir.path());
        command.env("NOTIFY_SOCKET", &path).stderr(Stdio::piped());
        if let Some(watchdog) = watchdog {
            command.env("WATCHDOG_USEC", watchdog.as_micros().to_string());
            command.env_remove("WATCHDOG_PID");
        }
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            manager,
            stderr,
            _dir: dir,
        }
    }

    /// What the manager hears until something begins so; that is the last.
    fn told(&self, until: &str) -> Vec<String> {
        let mut all = Vec::new();
        let mut text = [0; 4096];
        loop {
            let n = self.manager.recv(&mut text).unwrap();
            let fact = String::from_utf8_lossy(&text[..n]).into_owned();
            let end = fact.starts_with(until);
            all.push(fact);
            if end {
                return all;
            }
        }
    }

    /// The first line of the log that holds this.
    fn logged(&mut self, part: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            let n = self.stderr.read_line(&mut line).unwrap();
            assert!(n > 0, "no {part:?} in\n{all}");
            if line.contains(part) {
                return line;
            }
            all += &line;
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What else it logs, until it has ended.
    fn rest(mut self) -> (std::process::ExitStatus, String) {
        let mut text = String::new();
        self.stderr.read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap(), text)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn each_frame_is_a_result_or_a_gap_with_a_name() {
    let (dir, output, text) = run("[fault]\nend_after = 12\ndrop_every = 5\n");
    assert!(output.status.success(), "{text}");
    let [frames, dropped] = [
        "roadloop_frames_total",
        "roadloop_gaps_total{gap=\"dropped\"}",
    ]
    .map(|name| metric(dir.path(), name));
    assert!(dropped >= 2.0, "{text}");
    assert!(frames >= 1.0 && frames + dropped >= 12.0, "{text}");
    assert!(text.contains("dropped: "), "{text}");
    let stereo = metric(dir.path(), "roadloop_stage_seconds_count{stage=\"stereo\"}");
    assert_eq!(stereo, frames);
}

#[test]
fn pixels_are_labelled_where_a_forest_is_configured() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/street.forest");
    let forest = format!(
        "[forest]\nmodel = '{}'\nstep = 4\n[fault]\nend_after = 4\n",
        model.display()
    );
    let (dir, output, text) = run(&forest);
    assert!(output.status.success(), "{text}");
    let frames = metric(dir.path(), "roadloop_frames_total");
    let labelled = metric(dir.path(), "roadloop_stage_seconds_count{stage=\"forest\"}");
    assert!(frames >= 1.0, "{text}");
    assert_eq!(labelled, frames);
    let (_dir, output, text) = run("[forest]\nmodel = 'none.forest'\n");
    assert_eq!(output.status.code(), Some(66), "{text}");
    assert!(text.contains("none.forest: "), "{text}");
}

#[test]
fn ready_comes_with_the_first_result_and_signs_of_life_after_it() {
    let mut service = Service::start("", Some(Duration::from_secs(60)));
    let before = service.told("READY=1");
    assert_eq!(before[0], "STATUS=starting");
    assert_eq!(before.iter().filter(|f| f.starts_with("READY")).count(), 1);
    service.logged("ready: the first result is out");
    let status = service.told("STATUS=");
    assert!(status.last().unwrap().contains("frames"), "{status:?}");
    service.signal(Signal::TERM);
    service.told("STOPPING=1");
    let (status, text) = service.rest();
    assert!(status.success(), "{text}");
    assert!(text.contains("ends after"), "{text}");
}

#[test]
fn the_watchdog_is_fed_while_the_loop_turns() {
    let service = Service::start("", Some(Duration::from_secs(2)));
    service.told("READY=1");
    for _ in 0..3 {
        service.told("WATCHDOG=1");
    }
    service.signal(Signal::INT);
    assert!(service.rest().0.success());
}

#[test]
fn a_stage_that_hangs_is_named_before_the_watchdog_bites_and_when_it_does() {
    let hang = "[fault.hang]\nstage = 'stixel'\nframe = 3\n";
    let mut service = Service::start(hang, Some(Duration::from_millis(400)));
    service.told("READY=1");
    // On a slow machine frame 3 itself may have been dropped.
    let line = service.logged("stage stixel of frame ");
    let (_, rest) = line.split_once("stage ").unwrap();
    let (named, _) = rest.split_once(" has not ended for ").unwrap();
    service.signal(Signal::ABORT);
    let (status, text) = service.rest();
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{text}");
    assert!(text.contains("aborted"), "{text}");
    assert!(text.contains(named), "no {named:?} in {text}");
}

#[test]
fn sighup_asks_for_the_state_and_ends_nothing() {
    let mut service = Service::start("", None);
    service.told("READY=1");
    service.logged("ready");
    service.signal(Signal::HUP);
    let line = service.logged(" frames, ");
    assert!(!line.contains("ends after"), "{line}");
    service.signal(Signal::TERM);
    assert!(service.rest().0.success());
}

#[test]
fn a_silence_is_a_lost_camera_and_a_long_one_the_end() {
    let silence = "[fault]\nstall_frame = 4\nstall_ms = 600000\n[live]\nsilence_s = 1\n";
    let (dir, output, text) = run(silence);
    assert_eq!(output.status.code(), Some(69), "{text}");
    assert!(text.contains("no frame for 1 s (live.silence_s)"), "{text}");
    let lost = metric(dir.path(), "roadloop_gaps_total{gap=\"camera_lost\"}");
    assert_eq!(lost, 1.0, "{text}");
    let stalled = "roadloop_camera_state{camera=\"left\",state=\"stalled\"}";
    assert_eq!(metric(dir.path(), stalled), 1.0, "{text}");
}

#[test]
fn without_a_first_frame_it_ends() {
    let (_dir, output, text) = run("[fault]\ndrop_every = 1\n[live]\nfirst_result_s = 1\n");
    assert_eq!(output.status.code(), Some(69), "{text}");
    assert!(text.contains("no result within 1 s"), "{text}");
}

#[test]
fn what_is_wrong_is_said_with_its_status() {
    for (more, status, part) in [
        ("[live]\nnonsense = 1\n", 78, "nonsense"),
        ("[live]\nsilence_s = 0\n", 78, "live.silence_s: 0"),
        ("[realtime]\npriority = 99\n", 78, "realtime.priority is 99"),
        (
            "[realtime]\npolicy = 'strict'\ncpus = [1023]\n",
            78,
            "realtime.cpus",
        ),
        (
            "[fault.hang]\nstage = 'nap'\nframe = 0\n",
            78,
            "fault.hang.stage",
        ),
        ("[calibration]\nfile = 'none.yaml'\n", 66, "none.yaml"),
        (
            "[calibration]\nfile = 'roadloop.toml'\n",
            65,
            "roadloop.toml",
        ),
    ] {
        let (_dir, output, text) = run(more);
        assert_eq!(output.status.code(), Some(status), "{more}: {text}");
        assert!(text.contains(part), "{more}: {text}");
    }
}

#[test]
fn faults_are_for_the_synthetic_street_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("roadloop.toml"), "[fault]\nend_after = 1\n").unwrap();
    let output = command(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&output.stderr).contains("source.kind"));
}

#[cfg(not(feature = "v4l2"))]
#[test]
fn a_build_without_cameras_says_which_one_has_them() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("roadloop.toml"), "").unwrap();
    let output = command(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&output.stderr).contains("v4l2"));
}

#[test]
fn in_the_journal_each_line_has_its_priority() {
    let dir = folder("[fault]\nend_after = 3\n");
    let log = fs::File::create(dir.path().join("log")).unwrap();
    let meta = log.metadata().unwrap();
    let status = command(dir.path())
        .env("JOURNAL_STREAM", format!("{}:{}", meta.dev(), meta.ino()))
        .stderr(log)
        .status()
        .unwrap();
    assert!(status.success());
    let text = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(text.contains("<6>computing on"), "{text}");
    assert!(text.lines().all(|l| l.starts_with('<')), "{text}");
}

#[test]
fn the_unit_is_hardened_as_far_as_it_goes() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/roadloop.service");
    let output = match Command::new("systemd-analyze")
        .args([
            "security",
            "--offline=yes",
            "--threshold=30",
            "--no-pager",
            unit,
        ])
        .output()
    {
        Ok(output) => output,
        Err(e) => {
            eprintln!("SKIPPED: systemd-analyze: {e}");
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let level = text.lines().last().unwrap_or_default();
    assert!(output.status.success(), "{level}");
    assert!(level.contains("exposure level"), "{level}");
}

#[test]
fn the_unit_says_what_the_service_promises() {
    let unit = include_str!("../systemd/roadloop.service");
    for line in [
        "Type=notify",
        "ExecStart=/usr/bin/roadloop run --config /etc/roadloop/roadloop.toml",
        "WatchdogSec=2",
        "WatchdogSignal=SIGABRT",
        "Restart=on-failure",
        "RestartPreventExitStatus=64 65 66 78",
        "CPUSchedulingPolicy=fifo",
        "LimitMEMLOCK=infinity",
        "StartLimitBurst=5",
    ] {
        assert!(unit.lines().any(|l| l == line), "no {line}");
    }
    // These would break CUDA, real time or the cameras.
    for key in [
        "MemoryDenyWriteExecute=",
        "PrivateDevices=",
        "RestrictRealtime=",
        "ProtectClock=",
    ] {
        assert!(!unit.lines().any(|l| l.starts_with(key)), "{key}");
    }
}

#[test]
fn the_shipped_configuration_is_understood() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/roadloop.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_roadloop"))
        .args(["check", "config", file])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success());
    for part in [
        "lock_memory = true",
        "priority = 50",
        "/run/roadloop/results.sock",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

/// The same street with other lines in two of its sections.
fn run_changed(frame_loop: &str, more: &str) -> (TempDir, Output, String) {
    let dir = tempfile::tempdir().unwrap();
    let text = STREET
        .replace("deadline_us = 2000000", frame_loop)
        .replace("metrics =", "socket = 'results.sock'\nmetrics =");
    fs::write(dir.path().join("roadloop.toml"), format!("{text}{more}")).unwrap();
    let output = command(dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (dir, output, said)
}

#[test]
fn at_a_fixed_latency_no_result_goes_out_early() {
    let latency = "deadline_us = 2000000\npublish = 'at_latency'\nlatency_us = 200000";
    let (dir, output, said) = run_changed(latency, "[fault]\nend_after = 30\n");
    assert!(output.status.success(), "{said}");
    let all = metric(dir.path(), "roadloop_handed_out_seconds_count");
    assert!(all > 0.0);
    assert_eq!(metric(dir.path(), "roadloop_handed_out_lost_total"), 0.0);
    // Up to 0.1 s is a bucket, and up to 0.2 s the next: nothing is in them.
    let early = "roadloop_handed_out_seconds_bucket{le=\"0.1\"}";
    assert_eq!(metric(dir.path(), early), 0.0);
    let sum = metric(dir.path(), "roadloop_handed_out_seconds_sum");
    assert!(sum >= 0.2 * all, "{sum} s of {all}");
}

#[test]
fn a_strict_loop_that_cannot_keep_its_deadline_ends_with_a_status() {
    let strict = "deadline_us = 40000\nstrict = true\nstrict_misses = 3";
    let slow = "[fault]\nend_after = 400\nslow = { stage = 'stereo', frame = 0, ms = 60 }\n";
    let (_dir, output, said) = run_changed(strict, slow);
    assert_eq!(output.status.code(), Some(70), "{said}");
    let expected = "frame_loop.strict: the required stages missed the deadline of 40000 us in 3 \
                    frames in a row";
    assert!(said.contains(expected), "{said}");
    assert!(
        said.contains("the longest of its stages was stereo"),
        "{said}"
    );
}

#[test]
fn places_that_nothing_can_be_written_to_are_refused_before_the_first_frame() {
    let long = format!("socket = '{}.sock'", "n".repeat(120));
    for (line, expected) in [
        ("socket = ''", "it is a folder, expected the name of a file"),
        ("socket = 'no/such.sock'", "no is no folder"),
        (
            "socket = 'roadloop.toml'",
            "is no socket, expected none or one that an earlier process left",
        ),
        (&long, "expected at most 107 for a socket"),
        ("metrics = 'no/such.prom'", "no is no folder"),
        (
            "metrics = '/dev/null'",
            "it is no file, expected none or one that is replaced",
        ),
        (
            "metrics = ''",
            "it is a folder, expected the name of a file",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let line = if line.starts_with("metrics") {
            line.to_owned()
        } else {
            format!("{line}\nmetrics = 'roadloop.prom'")
        };
        let text = STREET.replace("metrics = 'roadloop.prom'", &line);
        assert!(text.contains(&line), "{text}");
        fs::write(dir.path().join("roadloop.toml"), text).unwrap();
        let output = command(dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{line}: {said}");
        let key = if line.starts_with("metrics") {
            "output.metrics: "
        } else {
            "output.socket: "
        };
        assert!(said.contains(key) && said.contains(expected), "{said}");
    }
}
