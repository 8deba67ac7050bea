//! Whether the agent's program could be started, looked at by a start and by the doctor alike. It is not run for that.

use super::look::shut;
use crate::agent::FALLBACK_PATH;
use crate::config::AgentConfig;
use crate::plain_file::{self, Links};
use rustix::fs::{Access, access};
use secrecy::ExposeSecret;
use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Why it could not.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unstartable {
    #[error("{} is not there", .0.display())]
    Missing(PathBuf),
    #[error("{name} is not on PATH ({path})")]
    NotOnPath { name: String, path: String },
    #[error("{} is a directory", .0.display())]
    Directory(PathBuf),
    #[error("{} lies in {}, into which this user does not come", file.display(), directory.display())]
    OutOfReach { file: PathBuf, directory: PathBuf },
    #[error("{} is not a program this user can run: it has neither the x bit nor a first line that begins with #!", .0.display())]
    NoProgram(PathBuf),
    #[error("{} is in a file system that is mounted so that nothing in it is run (noexec)", .0.display())]
    Noexec(PathBuf),
    #[error("{} lacks the x bit for this user (mode {mode:o}), so it is not run", file.display())]
    NotExecutable { file: PathBuf, mode: u32 },
    #[error("{} is to be run by {interpreter}, as its first line says, and that is not there", script.display())]
    NoInterpreter { script: PathBuf, interpreter: String },
    #[error("the lines of {} end as on Windows (CR LF), so that what its first line names is not found", .0.display())]
    CarriageReturn(PathBuf),
}

/// Where it is.
pub(super) fn look(agent: &AgentConfig) -> Result<PathBuf, Unstartable> {
    let name = &agent.argv[0];
    let path = agent.env.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or(FALLBACK_PATH, |(_, value)| value.expose_secret());
    if !name.contains('/') {
        let found = on_path(name, path).or_else(|| in_path(name, path).find(|place| place.is_file()));
        let not_on_path = || Unstartable::NotOnPath { name: name.clone(), path: path.to_owned() };
        return may_be_run(found.ok_or_else(not_on_path)?, path);
    }
    let file = PathBuf::from(name);
    match fs::metadata(&file) {
        Ok(there) if there.is_dir() => Err(Unstartable::Directory(file)),
        Ok(_) => may_be_run(file, path),
        Err(error) => match shut(&file) {
            Some(directory) if error.kind() == ErrorKind::PermissionDenied => {
                Err(Unstartable::OutOfReach { file, directory })
            }
            Some(_) | None => Err(Unstartable::Missing(file)),
        },
    }
}

fn in_path(name: &str, path: &str) -> impl Iterator<Item = PathBuf> {
    path.split(':').map(move |directory| Path::new(directory).join(name))
}

fn on_path(name: &str, path: &str) -> Option<PathBuf> {
    in_path(name, path).find(|place| place.is_file() && access(place, Access::EXEC_OK).is_ok())
}

fn may_be_run(file: PathBuf, path: &str) -> Result<PathBuf, Unstartable> {
    const EVERYBODY: u32 = 0o111;
    let mode = fs::metadata(&file).map_or(0, |there| there.permissions().mode() & 0o777);
    match access(&file, Access::EXEC_OK) {
        Ok(()) => match without_interpreter(&file, path) {
            Some(why) => Err(why),
            None => Ok(file),
        },
        Err(_) if mode & EVERYBODY == EVERYBODY => Err(Unstartable::Noexec(file)),
        Err(_) if is_program(&file) => Err(Unstartable::NotExecutable { file, mode }),
        Err(_) => Err(Unstartable::NoProgram(file)),
    }
}

/// By its beginning. One that cannot be read may be one.
fn is_program(file: &Path) -> bool {
    let mut beginning = [0; 4];
    let read = plain_file::open(file, Links::Follow).and_then(|mut file| file.read(&mut beginning));
    match read {
        Ok(_) => beginning.starts_with(b"#!") || &beginning == b"\x7fELF",
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

/// What a script's first line wants and does not find. Source: execve(2), "Interpreter scripts".
fn without_interpreter(script: &Path, path: &str) -> Option<Unstartable> {
    /// The kernel reads no more of it.
    const LONGEST: u64 = 255;
    let mut line = Vec::new();
    BufReader::new(plain_file::open(script, Links::Follow).ok()?.take(LONGEST)).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8_lossy(line.strip_prefix(b"#!")?).into_owned();
    let line = line.trim_end_matches('\n');
    if line.ends_with('\r') {
        return Some(Unstartable::CarriageReturn(script.to_owned()));
    }
    let mut words = line.split_ascii_whitespace();
    let first = Path::new(words.next()?);
    let missing =
        |name: &str| Some(Unstartable::NoInterpreter { script: script.to_owned(), interpreter: name.to_owned() });
    if first.is_absolute() && fs::metadata(first).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return missing(&first.display().to_string());
    }
    // It looks for the program itself; its other options, and variables before the program, are rare.
    let is_env = first.file_name().is_some_and(|name| name == "env");
    let is_name = |word: &&str| !word.starts_with('-') && !word.contains(['=', '/']);
    let wanted = words.find(|word| *word != "-S").filter(|word| is_env && is_name(word))?;
    match on_path(wanted, path) {
        Some(_) => None,
        None => missing(wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_at_as_the_system_would() {
        let dir = tempfile::tempdir().unwrap();
        let made = |name: &str, text: &str, mode: u32| {
            let file = dir.path().join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            file
        };
        let look = |program: &str| {
            let path = format!("{}:/usr/bin:/bin", dir.path().display());
            super::look(&AgentConfig {
                argv: vec![program.to_owned()],
                env: vec![("PATH".to_owned(), path.into())],
                unset: vec![],
            })
        };
        let missing = |script: &Path, interpreter: &str| {
            Err(Unstartable::NoInterpreter { script: script.to_owned(), interpreter: interpreter.to_owned() })
        };
        let is = |file: &Path, wanted: Result<PathBuf, Unstartable>| {
            assert_eq!(look(file.to_str().unwrap()), wanted);
            assert_eq!(look(file.file_name().unwrap().to_str().unwrap()), wanted, "on PATH");
        };
        for (number, text) in ["#!/bin/sh -e\n", "#!/usr/bin/env sh\n", "#! /usr/bin/env -S sh -e\n", "\x7fELF", "#!"]
            .into_iter()
            .enumerate()
        {
            let file = made(&format!("good{number}"), text, 0o755);
            is(&file, Ok(file.clone()));
        }
        let closed = made("closed", "#!/bin/sh\n", 0o644);
        is(&closed, Err(Unstartable::NotExecutable { file: closed.clone(), mode: 0o644 }));
        let words = made("words", "how to run it\n", 0o644);
        is(&words, Err(Unstartable::NoProgram(words.clone())));
        let windows = made("windows", "#!/bin/sh\r\necho\r\n", 0o755);
        is(&windows, Err(Unstartable::CarriageReturn(windows.clone())));
        for text in ["#!/no/such/python3 -u\n", "#!/no/such/python3"] {
            let script = made("script", text, 0o755);
            is(&script, missing(&script, "/no/such/python3"));
        }
        let script = made("script", "#!/usr/bin/env no-such-node\n", 0o755);
        is(&script, missing(&script, "no-such-node"));
        let directory = dir.path().to_owned();
        assert_eq!(look(directory.to_str().unwrap()), Err(Unstartable::Directory(directory)));
        assert_eq!(look("/no/such/agent"), Err(Unstartable::Missing("/no/such/agent".into())));
        assert!(matches!(look("no-such-agent"), Err(Unstartable::NotOnPath { .. })));
    }
}
