//! Parses the command line and hands over to `app`.

use std::{fmt::Arguments, io::Write, process::ExitCode};
use treewarden::{app::commands, cli::Cli};

fn main() -> ExitCode {
    let cli = match Cli::parse_from(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(format_args!("The process could not start its threads: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(commands::run(cli)) {
        Ok(code) => code,
        Err(error) => {
            complain(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// On standard error, as far as anybody reads it.
fn complain(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
