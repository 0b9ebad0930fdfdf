//! Does `mpirun -n K roadloop forest train` give the forest of one process, byte for byte, and
//! does a training that has lost a rank end, and go on where it stopped?
#[path = "common/columns.rs"]
mod columns;
#[path = "common/toy.rs"]
mod toy;

use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

const RECIPE: [&str; 8] = [
    "--samples",
    "200",
    "--features",
    "40",
    "--min-pixels",
    "4",
    "--threads",
    "1",
];

fn train(ranks: Option<&str>, data: &Path, out: &Path, more: &[&str]) -> Output {
    command(ranks, data, out, more).output().unwrap()
}

fn command(ranks: Option<&str>, data: &Path, out: &Path, more: &[&str]) -> Command {
    let program = env!("CARGO_BIN_EXE_roadloop");
    let mut command = match ranks {
        None => Command::new(program),
        Some(n) => {
            let mut command = Command::new("mpirun");
            command.args(["--allow-run-as-root", "--oversubscribe", "-n", n, program]);
            command
        }
    };
    command
        .args(["forest", "train"])
        .arg(data)
        .arg("--out")
        .arg(out)
        .args(RECIPE)
        .args(more);
    command
}

/// The process that is rank 1 of what this `mpirun` has started.
fn rank_1(mpirun: &Child) -> Pid {
    let of = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Behind the name, which may hold anything: state, parent.
        let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?;
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mut variables = environment.split(|&b| b == 0);
        (parent == mpirun.id().to_string()
            && variables.any(|v| v == b"OMPI_COMM_WORLD_RANK=1" || v == b"PMIX_RANK=1"))
        .then(|| Pid::from_raw(pid.parse().ok()?))?
    };
    let found = fs::read_dir("/proc")
        .unwrap()
        .find_map(|entry| of(entry.unwrap().file_name().to_str()?));
    found.expect("mpirun has started rank 1")
}

#[test]
fn ranks_give_the_bytes_of_one_process() {
    let tmp = toy::folder();
    let path = |name: &str| tmp.path().join(name);
    let two = ["--trees", "2"];
    for more in [&[][..], &["--threshold-source", "uniform", "--flip"]] {
        let more = &[&two, more].concat()[..];
        let alone = train(
            None,
            tmp.path(),
            &path("alone"),
            &[more, &["--force"]].concat(),
        );
        assert!(alone.status.success(), "{alone:?}");
        let expected = fs::read(path("alone")).unwrap();
        for n in ["1", "2", "3"] {
            let out = path(n);
            let ran = train(Some(n), tmp.path(), &out, &[more, &["--force"]].concat());
            assert!(ran.status.success(), "{n}: {ran:?}");
            assert_eq!(fs::read(&out).unwrap(), expected, "{n} ranks, {more:?}");
            assert!(!path(&format!("{n}.part")).exists());
        }
    }
}

#[test]
fn an_error_of_one_rank_ends_all_with_its_words() {
    let tmp = toy::folder();
    // The last picture is the last rank's.
    let last = tmp.path().join("labels/p4.png");
    let bytes = fs::read(&last).unwrap();
    fs::write(&last, &bytes[..bytes.len() / 2]).unwrap();
    let ran = train(
        Some("3"),
        tmp.path(),
        &tmp.path().join("f"),
        &["--trees", "2"],
    );
    let text = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success());
    assert!(text.contains("p4.png"), "{text}");
    assert!(!tmp.path().join("f").exists());
}

#[test]
fn a_lost_rank_ends_all_and_resume_gives_the_same_bytes() {
    let tmp = toy::folder();
    let path = |name: &str| tmp.path().join(name);
    let recipe = ["--trees", "60"];
    let alone = train(None, tmp.path(), &path("alone"), &recipe);
    assert!(alone.status.success(), "{alone:?}");
    let expected = fs::read(path("alone")).unwrap();

    let (out, part) = (path("lost"), path("lost.part"));
    let mut mpirun = command(Some("2"), tmp.path(), &out, &recipe)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !part.exists() {
        assert!(mpirun.try_wait().unwrap().is_none(), "no checkpoint");
        std::thread::sleep(Duration::from_millis(1));
    }
    kill_process(rank_1(&mpirun), Signal::KILL).unwrap();
    let ran = mpirun.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success(), "{text}");
    assert!(text.contains("rank 0: another rank is lost"), "{text}");
    assert!(text.contains("--resume goes on"), "{text}");
    assert!(!out.exists());

    // Whether by several ranks or by one.
    fs::copy(&part, path("one.part")).unwrap();
    for (ranks, out) in [(Some("2"), "lost"), (None, "one")] {
        let more = [&recipe[..], &["--resume"]].concat();
        let resumed = train(ranks, tmp.path(), &path(out), &more);
        assert!(resumed.status.success(), "{resumed:?}");
        assert_eq!(fs::read(path(out)).unwrap(), expected, "{ranks:?}");
        assert!(!path(&format!("{out}.part")).exists());
    }
}
