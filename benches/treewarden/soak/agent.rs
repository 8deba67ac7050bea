//! The soak's agent: does what the last line of its task that begins with `soak` says, and notes down what it made.

use super::ledger::{Ledger, Note, blob, git, leave, room};
use super::random::Random;
use super::{AGENTS_FILES, base_file};
use std::{fs, path::Path, process::ExitCode, time::Duration};

/// What it can be asked for, as often as each stands here.
const ACTS: [&str; 18] = [
    "new", "new", "new", "edit", "edit", "commit", "commit", "commit", "ignored", "cache", "staged", "sleep", "sleep",
    "sleep", "fail", "side", "stash", "new",
];
const RARE: [&str; 2] = ["nest", "detach"];
const MOST_SLEEP: u64 = 1_500;

/// A task of some acts, without a mention.
pub fn task(random: &mut Random) -> String {
    let mut acts: Vec<&str> = (0..1 + random.below(5)).filter_map(|_| random.pick(&ACTS).copied()).collect();
    if random.percent(4) {
        acts.extend(random.pick(&RARE));
    }
    format!("please\n\nsoak {} {}", random.next(), acts.join(" "))
}

pub fn main(ledger: &Path) -> ExitCode {
    let ledger = Ledger::new(ledger);
    let prompt = std::io::read_to_string(std::io::stdin()).unwrap_or_default();
    let task = prompt.split("\n# Task").nth(1).and_then(|rest| rest.split("\n# ").next()).unwrap_or_default();
    let asked = task.lines().map(str::trim).rfind(|line| line.starts_with("soak "));
    let mut words = asked.unwrap_or_default().split(' ').skip(1);
    let Some(seed) = words.next().and_then(|seed| seed.parse().ok()) else {
        println!("Nothing is asked of me.");
        return ExitCode::SUCCESS;
    };
    let place = std::env::current_dir().expect("a worktree");
    let mut turn = Turn { codebase: codebase_of(&place), ledger, random: Random::new(seed), seed, made: Vec::new() };
    let mut code = ExitCode::SUCCESS;
    for (number, act) in words.enumerate() {
        if !turn.act(&place, act, number) {
            eprintln!("{act} failed");
        }
        if act == "fail" {
            code = ExitCode::from(3);
        }
    }
    println!("Done.");
    code
}

/// `owner/name`, by where the repository of a worktree lies.
pub fn codebase_of(place: &Path) -> String {
    let common = git(place, &["rev-parse", "--path-format=absolute", "--git-common-dir"]).unwrap_or_default();
    let mut parts = common.trim_end_matches(".git").rsplit('/');
    let (name, owner) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{owner}/{name}")
}

struct Turn {
    codebase: String,
    ledger: Ledger,
    random: Random,
    seed: u64,
    /// Files that a commit is to have.
    made: Vec<String>,
}

impl Turn {
    fn act(&mut self, place: &Path, act: &str, number: usize) -> bool {
        let seed = self.seed;
        match act {
            "new" => {
                let name = format!("new{}/{seed}-{number}.txt", self.random.below(3));
                self.write(place, &name, true)
            }
            "edit" => {
                let name = base_file(self.random.below(AGENTS_FILES));
                self.write(place, &name, true)
            }
            "ignored" => self.write(place, &format!("{seed}-{number}.log"), false),
            "cache" => {
                let cache = place.join("target");
                fs::create_dir_all(&cache).and_then(|()| fs::write(cache.join(seed.to_string()), "again")).is_ok()
            }
            "staged" => {
                let name = format!("staged-{seed}-{number}.txt");
                self.write(place, &name, true) && git(place, &["add", "--", &name]).is_some()
            }
            "commit" => self.commit(place),
            "side" => {
                let Some(branch) = git(place, &["symbolic-ref", "--short", "HEAD"]) else { return false };
                // It may be killed before it is back.
                self.ledger.note(&Note::Wandered { place: place.to_owned() });
                let side = format!("side-{seed}-{number}");
                let begun = git(place, &["checkout", "-q", "-b", &side]).is_some();
                let name = format!("{side}.txt");
                let done = begun && self.write(place, &name, true) && self.commit(place);
                git(place, &["checkout", "-q", &branch]).is_some() && done
            }
            "stash" => self.stash(place, number),
            "detach" => {
                self.ledger.note(&Note::Wandered { place: place.to_owned() });
                let name = format!("detached-{seed}-{number}.txt");
                git(place, &["checkout", "-q", "--detach"]).is_some()
                    && self.write(place, &name, true)
                    && self.commit(place)
            }
            "nest" => self.nest(place, number),
            "sleep" => {
                std::thread::sleep(Duration::from_millis(self.random.below(MOST_SLEEP)));
                true
            }
            _ => true,
        }
    }

    fn write(&mut self, place: &Path, name: &str, for_a_commit: bool) -> bool {
        let text = format!("{name}\n{}\n{}\n", self.seed, self.random.next());
        let _ = room(place, name);
        let left = leave(&self.ledger, (&self.codebase, place, name), &text);
        if left && for_a_commit {
            self.made.push(name.to_owned());
        }
        left
    }

    /// Of what it made since the last one, or of nothing.
    fn commit(&mut self, place: &Path) -> bool {
        let mut add = vec!["add", "--"];
        add.extend(self.made.iter().map(String::as_str));
        if add.len() > 2 && git(place, &add).is_none() {
            return false;
        }
        let message = format!("Work {}", self.random.next());
        if git(place, &["commit", "-q", "--allow-empty", "-m", &message]).is_none() {
            return false;
        }
        self.made.clear();
        self.note_commit(git(place, &["rev-parse", "HEAD"]))
    }

    fn note_commit(&self, sha: Option<String>) -> bool {
        let Some(sha) = sha else { return false };
        self.ledger.note(&Note::Commit { codebase: self.codebase.clone(), sha });
        true
    }

    /// The stash is everybody's: by its own name, whatever others put there meanwhile.
    fn stash(&mut self, place: &Path, number: usize) -> bool {
        let name = format!("stash-{}-{number}.txt", self.seed);
        if !self.write(place, &name, false) || git(place, &["add", "--", &name]).is_none() {
            return false;
        }
        let Some(sha) = git(place, &["stash", "create"]).filter(|sha| !sha.is_empty()) else { return false };
        if git(place, &["stash", "store", "-m", "soak", &sha]).is_none() {
            return false;
        }
        self.note_commit(Some(sha));
        git(place, &["rm", "-q", "-f", "--", &name]).is_some()
    }

    fn nest(&mut self, place: &Path, number: usize) -> bool {
        let name = format!("inner-{}-{number}", self.seed);
        let inner = place.join(&name);
        if fs::create_dir(&inner).is_err() || git(&inner, &["init", "-q"]).is_none() {
            return false;
        }
        let text = format!("{}\n", self.random.next());
        if fs::write(inner.join("file"), &text).is_err() {
            return false;
        }
        let blob = blob(text.as_bytes());
        self.ledger.note(&Note::Nested { place: place.to_owned(), name: format!("{name}/file"), blob });
        git(&inner, &["add", "file"]).is_some()
            && (self.random.percent(50) || git(&inner, &["commit", "-q", "-m", "Inner"]).is_some())
    }
}
