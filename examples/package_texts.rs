//! Writes what a package needs besides the program: man pages and shell completions.
//!
//! usage: package_texts OUT      makes OUT/{man,bash,zsh,fish}; what is there is overwritten
use std::{env, fs, io, path::PathBuf, process::ExitCode};

use clap_complete::{Shell, generate_to};

const NAME: &str = "roadloop";

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1);
    let (Some(out), None) = (args.next(), args.next()) else {
        eprintln!("usage: package_texts OUT");
        return ExitCode::from(64);
    };
    match write(&PathBuf::from(out)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("package_texts: {e}");
            ExitCode::from(70)
        }
    }
}

fn write(out: &std::path::Path) -> io::Result<()> {
    let made = |name: &str| {
        let dir = out.join(name);
        fs::create_dir_all(&dir).map(|()| dir)
    };
    clap_mangen::generate_to(roadloop::cli::command().name(NAME), made("man")?)?;
    for (shell, dir) in [
        (Shell::Bash, "bash"),
        (Shell::Zsh, "zsh"),
        (Shell::Fish, "fish"),
    ] {
        generate_to(shell, &mut roadloop::cli::command(), NAME, made(dir)?)?;
    }
    Ok(())
}
