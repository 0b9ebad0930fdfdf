//! The command line, nothing else.
fn main() -> std::process::ExitCode {
    roadloop::cli::main()
}
