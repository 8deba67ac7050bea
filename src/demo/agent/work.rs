//! What the toy agent can do: greet in a few languages, and take notes of everything else.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

const PROGRAM: &str = "hello.sh";
const NOTES: &str = "NOTES.md";

/// Languages it can greet in, by the word that asks for them.
const GREETINGS: [(&str, &str); 7] = [
    ("english", ENGLISH),
    ("french", "Bonjour, le monde !"),
    ("german", "Hallo, Welt!"),
    ("italian", "Ciao, mondo!"),
    ("japanese", "こんにちは、世界!"),
    ("portuguese", "Olá, mundo!"),
    ("spanish", "¡Hola, mundo!"),
];
const ENGLISH: &str = "Hello, world!";
/// What may follow "in" and is no language: "in the README".
const NO_LANGUAGE: [&str; 9] = ["a", "all", "an", "it", "my", "our", "that", "the", "this"];

/// Does the task and says what was done.
pub(super) fn perform(task: &str, cwd: &Path) -> io::Result<String> {
    let lower = task.to_lowercase();
    if !lower.contains("greet") && !lower.contains("hello") {
        let noted = note(task, cwd)?;
        return Ok(format!("I am only a toy, so I wrote the request down in `{NOTES}`:\n\n> {noted}\n"));
    }
    let wanted = languages(task);
    let unknown = wanted.unknown.join(", ");
    match (wanted.greetings.is_empty(), unknown.is_empty()) {
        (true, true) => greet(&[ENGLISH], cwd),
        (false, true) => greet(&wanted.greetings, cwd),
        (true, false) => {
            note(task, cwd)?;
            Ok(format!("I cannot greet in {unknown}, so I wrote the request down in `{NOTES}`.\n"))
        }
        (false, false) => {
            let greeted = greet(&wanted.greetings, cwd)?;
            note(task, cwd)?;
            Ok(format!("{greeted}\nI cannot greet in {unknown}; the request is written down in `{NOTES}`.\n"))
        }
    }
}

/// Languages a task names.
struct Wanted<'a> {
    greetings: Vec<&'static str>,
    unknown: Vec<&'a str>,
}

/// Known ones stand anywhere; any other word counts as one after "in", and in the list that begins there.
fn languages(task: &str) -> Wanted<'_> {
    let mut wanted = Wanted { greetings: Vec::new(), unknown: Vec::new() };
    // Whether a language may stand here: right after "in", or later in a list.
    let (mut after_in, mut in_list) = (false, false);
    for raw in task.split_whitespace() {
        let word = raw.trim_matches(|c: char| !c.is_alphanumeric());
        let lower = word.to_lowercase();
        let greeting = GREETINGS.iter().find(|(language, _)| *language == lower).map(|(_, greeting)| *greeting);
        let name = word.chars().next().is_some_and(char::is_uppercase);
        let possible = !word.is_empty() && word.chars().all(char::is_alphabetic);
        let language = possible && (after_in && !NO_LANGUAGE.contains(&&*lower) || in_list && name);
        match greeting {
            Some(greeting) if !wanted.greetings.contains(&greeting) => wanted.greetings.push(greeting),
            None if language && !wanted.unknown.contains(&word) => wanted.unknown.push(word),
            Some(_) | None => {}
        }
        in_list = match &*lower {
            "and" | "or" | "" => in_list,
            _ => (greeting.is_some() || language) && !raw.ends_with(['.', '!', '?', ';', ':']),
        };
        after_in = lower == "in";
    }
    wanted
}

/// Adds what the program does not say yet, and tells all that it says then.
fn greet(greetings: &[&str], cwd: &Path) -> io::Result<String> {
    let path = cwd.join(PROGRAM);
    let (before, verb) = match fs::read_to_string(&path) {
        Ok(before) => (before, "extended"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => ("#!/bin/sh\n".to_owned(), "added"),
        Err(error) => return Err(error),
    };
    let line = |greeting: &str| format!("echo \"{greeting}\"\n");
    let fresh: String = greetings.iter().map(|greeting| line(greeting)).filter(|line| !before.contains(line)).collect();
    let text = format!("{before}{fresh}");
    let says: String = text.lines().filter_map(greeting_of).map(|greeting| format!("> {greeting}\n")).collect();
    if fresh.is_empty() {
        return Ok(format!("`{PROGRAM}` says that already, so I left it as it was:\n\n{says}"));
    }
    fs::write(&path, &text)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(format!("I {verb} `{PROGRAM}`. It now says:\n\n{says}\nTry it with `./{PROGRAM}`.\n"))
}

fn greeting_of(line: &str) -> Option<&str> {
    line.strip_prefix("echo \"")?.strip_suffix('"')
}

/// Writes the task down, on one line, which is answered.
fn note(task: &str, cwd: &Path) -> io::Result<String> {
    let path = cwd.join(NOTES);
    let before = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => "# Notes\n\n".to_owned(),
        Err(error) => return Err(error),
    };
    let one_line = task.split_whitespace().collect::<Vec<_>>().join(" ");
    fs::write(&path, format!("{before}- {one_line}\n"))?;
    Ok(one_line)
}
