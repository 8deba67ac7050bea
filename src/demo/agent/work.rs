//! What the toy agent can do: greet in a few languages, and take notes of everything else.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

const PROGRAM: &str = "hello.sh";
const NOTES: &str = "NOTES.md";

/// Languages it can greet in, by the word that asks for them.
const GREETINGS: [(&str, &str); 6] = [
    ("french", "Bonjour, le monde !"),
    ("german", "Hallo, Welt!"),
    ("italian", "Ciao, mondo!"),
    ("japanese", "こんにちは、世界!"),
    ("portuguese", "Olá, mundo!"),
    ("spanish", "¡Hola, mundo!"),
];

/// Does the task and says what was done.
pub(super) fn perform(task: &str, cwd: &Path) -> io::Result<String> {
    let lower = task.to_lowercase();
    if lower.contains("greet") || lower.contains("hello") { greet(&lower, cwd) } else { note(task, cwd) }
}

fn greet(task: &str, cwd: &Path) -> io::Result<String> {
    let known = GREETINGS.iter().find(|(language, _)| task.contains(language));
    let greeting = known.map_or("Hello, world!", |(_, greeting)| greeting);
    let path = cwd.join(PROGRAM);
    let line = format!("echo \"{greeting}\"\n");
    let (text, verb) = match fs::read_to_string(&path) {
        Ok(before) if before.contains(&line) => {
            return Ok(format!("`{PROGRAM}` already says “{greeting}”, so I changed nothing.\n"));
        }
        Ok(before) => (before + &line, "extended"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (format!("#!/bin/sh\n{line}"), "added"),
        Err(error) => return Err(error),
    };
    fs::write(&path, text)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(format!("I {verb} `{PROGRAM}`. It now says:\n\n> {greeting}\n\nTry it with `./{PROGRAM}`.\n"))
}

fn note(task: &str, cwd: &Path) -> io::Result<String> {
    let path = cwd.join(NOTES);
    let before = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => "# Notes\n\n".to_owned(),
        Err(error) => return Err(error),
    };
    let one_line = task.split_whitespace().collect::<Vec<_>>().join(" ");
    fs::write(&path, format!("{before}- {one_line}\n"))?;
    Ok(format!("I am only a toy, so I wrote the request down in `{NOTES}`:\n\n> {one_line}\n"))
}
