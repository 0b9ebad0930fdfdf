//! Does `mpirun -n K roadloop forest train` give the forest of one process, byte for byte?
#[path = "common/columns.rs"]
#[allow(dead_code)]
mod columns;
#[path = "common/toy.rs"]
#[allow(dead_code)]
mod toy;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

const RECIPE: [&str; 10] = [
    "--trees",
    "2",
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
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn ranks_give_the_bytes_of_one_process() {
    let tmp = toy::folder();
    let path = |name: &str| tmp.path().join(name);
    for more in [&[][..], &["--threshold-source", "uniform", "--flip"]] {
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
    let ran = train(Some("3"), tmp.path(), &tmp.path().join("f"), &[]);
    let text = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success());
    assert!(text.contains("p4.png"), "{text}");
    assert!(!tmp.path().join("f").exists());
}
