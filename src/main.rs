//! Parses the command line and hands over to `app`.

use std::{fmt::Arguments, io::Write, process::ExitCode, time::Duration};
use treewarden::{
    app::commands,
    cli::Cli,
    model::{TERMINAL_LINES, written_out},
};

/// For threads at blocking work, once everything has been written.
const LAST_THREADS: Duration = Duration::from_secs(5);

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
    let ended = runtime.block_on(commands::run(cli));
    // A thread that cannot be ended (a read of a damaged file) does not hold up the end of the process.
    runtime.shutdown_timeout(LAST_THREADS);
    match ended {
        Ok(code) => code,
        Err(error) => {
            complain(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// On standard error, as far as anybody reads it.
fn complain(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{}", written_out(&line.to_string(), TERMINAL_LINES));
}
