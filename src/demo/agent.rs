//! A toy agent: understands a few plain requests, edits files below its working directory and answers in Markdown. It is
//! quick, needs no network and does the same every time, so that the demo and the tests can show real work without a
//! model.
//!
//! The prompt comes as text, the answer goes to `answer`, `::status …` lines to `status` (standard input, output and error
//! of the process). What the agent cannot do by itself it says; it never touches anything outside its directory.
//!
//! The task is the part of the prompt below a heading `Task`, up to the next heading of that level, without a first line
//! that only says who wrote it (`@ann … wrote …:`); without such a heading, all of it. Words in the task make it misbehave on purpose: `agent:fail`, `agent:sleep=SECONDS`, `agent:noop`,
//! `agent:dirty-nested`, `agent:commit`, `agent:huge`, `agent:fork`.

mod behaviour;
mod work;

use std::{
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
    time::Duration,
};

/// Pause between steps, so that a person can watch them.
const PACE: Duration = Duration::from_millis(250);

/// The process: prompt on standard input, current directory as the place to work in.
pub fn main() -> ExitCode {
    let outcome = std::env::current_dir().and_then(|cwd| {
        let mut prompt = String::new();
        io::stdin().read_to_string(&mut prompt)?;
        run(&prompt, &cwd, PACE, &mut io::stdout(), &mut io::stderr())
    });
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("The agent could not finish: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One turn. `pace` is the pause before each of about four steps.
pub fn run(
    prompt: &str,
    cwd: &Path,
    pace: Duration,
    answer: &mut dyn Write,
    status: &mut dyn Write,
) -> io::Result<ExitCode> {
    let task = task_of(prompt);
    let mut step = |text: &str| -> io::Result<()> {
        std::thread::sleep(pace);
        writeln!(status, "::status {text}")
    };
    step("reading the request")?;
    if let Some(time) = behaviour::sleep_of(task) {
        step(&format!("sleeping for {} s", time.as_secs_f64()))?;
        std::thread::sleep(time);
    }
    if behaviour::asked(task, "fail") {
        step("giving up, as told")?;
        writeln!(answer, "I was told to fail, so I did.")?;
        return Ok(ExitCode::FAILURE);
    }
    step("looking at the files")?;
    let report = match behaviour::special(task, cwd)? {
        Some(report) if behaviour::asked(task, "dirty-nested") => match behaviour::rest_of(task) {
            rest if rest.trim().is_empty() => report,
            rest => report + "\n" + &work::perform(&rest, cwd)?,
        },
        Some(report) => report,
        None => {
            step("editing files")?;
            work::perform(task, cwd)?
        }
    };
    step("writing the answer")?;
    answer.write_all(report.as_bytes())?;
    answer.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The task within a prompt.
fn task_of(prompt: &str) -> &str {
    let section = task_section(prompt);
    match section.split_once("\n\n") {
        Some((who, words)) if who.starts_with('@') && who.ends_with(':') && !who.contains('\n') => words.trim(),
        _ => section,
    }
}

fn task_section(prompt: &str) -> &str {
    let mut offset = 0;
    let mut found: Option<(usize, usize)> = None;
    for line in prompt.split_inclusive('\n') {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        let heading = (1..=6).contains(&level) && line[level..].starts_with(' ');
        match found {
            Some((start, depth)) if heading && level <= depth => return prompt[start..offset].trim(),
            None if heading && line[level..].trim().trim_end_matches(':').eq_ignore_ascii_case("task") => {
                found = Some((offset + line.len(), level));
            }
            _ => {}
        }
        offset += line.len();
    }
    found.map_or(prompt, |(start, _)| &prompt[start..]).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exit code as text, answer, status lines.
    fn turn(prompt: &str, cwd: &Path) -> (String, String, String) {
        let (mut answer, mut status) = (Vec::new(), Vec::new());
        let code = run(prompt, cwd, Duration::ZERO, &mut answer, &mut status).unwrap();
        (format!("{code:?}"), String::from_utf8(answer).unwrap(), String::from_utf8(status).unwrap())
    }

    fn success() -> String {
        format!("{:?}", ExitCode::SUCCESS)
    }

    #[test]
    fn the_task_is_the_section_of_that_name() {
        assert_eq!(task_of("Just do it"), "Just do it");
        assert_eq!(
            task_of("# Background\nagent:fail\n\n# Task\nadd x\n## Detail\ny\n# Rules\nz"),
            "add x\n## Detail\ny"
        );
        assert_eq!(task_of("## Task:\nadd x"), "add x");
        assert_eq!(task_of("# Task\n\n@ann (may give you work) wrote in a comment on issue #1:\n\nadd x\n"), "add x");
        assert_eq!(task_of("# Tasks\na"), "# Tasks\na");
    }

    #[test]
    fn a_greeting_becomes_a_program_and_later_ones_add_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let (code, answer, status) = turn("# Task\nadd a greeting", dir.path());
        assert_eq!(code, success());
        assert!(answer.contains("`hello.sh`"), "{answer}");
        assert!(status.lines().all(|line| line.starts_with("::status ")), "{status}");
        turn("please also greet in French", dir.path());
        let program = std::fs::read_to_string(dir.path().join("hello.sh")).unwrap();
        assert!(program.starts_with("#!/bin/sh\n"));
        assert!(program.contains("Hello") && program.contains("Bonjour"));
    }

    #[test]
    fn every_language_asked_for_is_greeted_in_or_noted() {
        let dir = tempfile::tempdir().unwrap();
        let asks = |task: &str| turn(task, dir.path()).1;
        asks("add a greeting in the README");
        let answer = asks("also greet in Spanish, German and Klingon.");
        for part in ["> Hello, world!\n> ¡Hola, mundo!\n> Hallo, Welt!\n", "cannot greet in Klingon", "`NOTES.md`"] {
            assert!(answer.contains(part), "{part} in {answer}");
        }
        let answer = asks("also greet in klingon, and in Elvish");
        assert_eq!(answer, "I cannot greet in klingon, Elvish, so I wrote the request down in `NOTES.md`.\n");
        let notes = std::fs::read_to_string(dir.path().join("NOTES.md")).unwrap();
        assert_eq!(notes.lines().count(), 4, "{notes}");
        let again = asks("say hello in German and make it loud");
        assert!(again.starts_with("`hello.sh` says that already") && again.contains("> ¡Hola"), "{again}");
    }

    #[test]
    fn anything_else_becomes_a_note() {
        let dir = tempfile::tempdir().unwrap();
        turn("make it faster", dir.path());
        turn("and smaller", dir.path());
        let notes = std::fs::read_to_string(dir.path().join("NOTES.md")).unwrap();
        assert_eq!(notes, "# Notes\n\n- make it faster\n- and smaller\n");
    }

    #[test]
    fn misbehaves_only_when_the_task_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let (code, ..) = turn("# Background\nagent:fail\n# Task\nagent:noop please", dir.path());
        assert_eq!(code, success());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let (code, ..) = turn("agent:fail", dir.path());
        assert_ne!(code, success());
        let (_, answer, _) = turn("agent:huge", dir.path());
        assert!(answer.len() > 200_000 && answer.matches("```").count() == 1);
    }
}
