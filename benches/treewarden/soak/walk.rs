//! The random walk: what people do, one thing after the other, while the service works and dies.

use super::ledger::{Ledger, Note, git, leave, room};
use super::random::Random;
use super::service::Service;
use super::{AGENTS_FILES, ANN, FILES, agent, base_file};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use treewarden::{
    demo::github::{MergeMethod, OpenPull, Standin},
    model::*,
    store::{EnvironmentFilter, Store},
};

/// What may wait before people wait, too.
const MOST_WAITING: i64 = 24;
const MOST_UNSENT: i64 = 300;
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Milliseconds between two kills of the service, on the average.
const BETWEEN_KILLS: u64 = 7_000;
/// Milliseconds at most until it is started again.
const DOWN: u64 = 400;
/// Rows that are looked at for one to name.
const RECENT: u32 = 60;

struct Thread {
    codebase: usize,
    number: i64,
}

pub struct Walk<'a> {
    pub standin: &'a Standin,
    pub service: &'a mut Service,
    pub ledger: &'a Ledger,
    pub codebases: &'a [String],
    pub random: Random,
    /// How often each thing was done.
    pub done: BTreeMap<&'static str, usize>,
    threads: Vec<Thread>,
    next_kill: Instant,
}

impl<'a> Walk<'a> {
    pub fn new(
        standin: &'a Standin,
        service: &'a mut Service,
        ledger: &'a Ledger,
        codebases: &'a [String],
        seed: u64,
    ) -> Self {
        let random = Random::new(seed);
        let (threads, done, next_kill) = (Vec::new(), BTreeMap::new(), Instant::now());
        Self { standin, service, ledger, codebases, random, done, threads, next_kill }
    }

    /// Until there were so many environments, or the time is over. Answers with whether there were.
    pub async fn go(&mut self, environments: i64, limit: Duration) -> bool {
        let mut store = self.service.store().await;
        let deadline = Instant::now() + limit;
        self.lay_fuse();
        loop {
            assert!(!self.service.has_ended(), "the service ended by itself");
            if Instant::now() > self.next_kill {
                store.close().await;
                self.kill().await;
                store = self.service.store().await;
            }
            let counts = store.environment_counts().await.expect("an answer");
            let all: i64 = counts.iter().map(|(_, count)| *count).sum();
            if all >= environments || Instant::now() > deadline {
                store.close().await;
                return all >= environments;
            }
            let waiting = store.unfinished().await.expect("an answer");
            if waiting.deliveries + waiting.runs > MOST_WAITING || waiting.outgoing > MOST_UNSENT {
                tokio::time::sleep(LOOK_AGAIN).await;
                continue;
            }
            let what = self.step(&store).await;
            *self.done.entry(what).or_default() += 1;
        }
    }

    fn lay_fuse(&mut self) {
        self.next_kill = Instant::now() + Duration::from_millis(self.random.below(2 * BETWEEN_KILLS));
    }

    async fn kill(&mut self) {
        let with_gits = self.random.percent(50);
        self.service.kill(with_gits);
        tokio::time::sleep(Duration::from_millis(self.random.below(DOWN))).await;
        self.service.start().await;
        self.lay_fuse();
    }

    /// One thing that somebody does. What GitHub refuses is not done, and that is fine.
    async fn step(&mut self, store: &Store) -> &'static str {
        match self.random.below(100) {
            0..22 => self.new_issue(),
            22..28 => self.new_pull().await,
            28..33 => self.create(),
            33..42 => self.say_in_old_thread(),
            42..60 => self.merge().await,
            60..70 => self.close(),
            70..73 => self.reopen(),
            73..76 => self.delete_branch(store).await,
            76..80 => self.push(store).await,
            80..88 => self.work_by_hand(store).await,
            88..92 => {
                self.service.kill_git(&mut self.random);
                "git killed"
            }
            _ => self.command(store).await,
        }
    }

    fn codebase(&mut self) -> usize {
        self.random.below(self.codebases.len() as u64) as usize
    }

    fn mention(&self, words: &str) -> String {
        format!("@{} {words}", self.standin.app_slug())
    }

    fn say(&self, codebase: usize, number: i64, words: &str) {
        let _ = self.standin.comment(&self.codebases[codebase], ANN, number, &self.mention(words));
    }

    /// A thread of this repository, else a new one.
    fn thread_in(&mut self, codebase: usize) -> i64 {
        let here: Vec<i64> =
            self.threads.iter().filter(|thread| thread.codebase == codebase).map(|thread| thread.number).collect();
        match self.random.pick(&here) {
            Some(number) => *number,
            None => self.issue(codebase, ""),
        }
    }

    fn issue(&mut self, codebase: usize, body: &str) -> i64 {
        let number = self.standin.open_issue(&self.codebases[codebase], ANN, "Soak", body).expect("an issue");
        self.threads.push(Thread { codebase, number });
        number
    }

    fn new_issue(&mut self) -> &'static str {
        let (codebase, task) = (self.codebase(), agent::task(&mut self.random));
        match self.random.percent(50) {
            true => drop(self.issue(codebase, &self.mention(&task))),
            false => {
                let number = self.issue(codebase, "");
                self.say(codebase, number, &task);
            }
        }
        "issues opened"
    }

    async fn new_pull(&mut self) -> &'static str {
        let (codebase, branch) = (self.codebase(), format!("ann-{}", self.random.next()));
        self.push_to(codebase, &branch).await;
        let body = if self.random.percent(30) { format!("Fixes #{}", self.thread_in(codebase)) } else { String::new() };
        let pull = OpenPull { title: "Soak", body: &body, head: &branch, ..OpenPull::default() };
        if let Ok(number) = self.standin.open_pull(&self.codebases[codebase], ANN, pull).await {
            self.threads.push(Thread { codebase, number });
            let task = agent::task(&mut self.random);
            self.say(codebase, number, &task);
        }
        "pull requests opened"
    }

    fn create(&mut self) -> &'static str {
        let codebase = self.codebase();
        let (number, branch) = (self.thread_in(codebase), format!("task{}", self.random.next()));
        self.say(codebase, number, &format!("/worktree create {branch}"));
        if self.random.percent(60) {
            let task = agent::task(&mut self.random);
            self.say(codebase, number, &task);
        }
        "worktrees created by command"
    }

    fn say_in_old_thread(&mut self) -> &'static str {
        let codebase = self.codebase();
        let (number, task) = (self.thread_in(codebase), agent::task(&mut self.random));
        self.say(codebase, number, &task);
        "comments"
    }

    async fn merge(&mut self) -> &'static str {
        let codebase = self.codebase();
        let name = &self.codebases[codebase];
        let mut pulls = self.standin.pulls(name).expect("pull requests");
        pulls.retain(|pull| pull.open);
        let Some(pull) = self.random.pick(&pulls).cloned() else { return "nothing to merge" };
        let methods = [MergeMethod::Merge, MergeMethod::Squash, MergeMethod::Rebase];
        let method = *self.random.pick(&methods).expect("a method");
        let _ = self.standin.set_draft(name, ANN, pull.number, false);
        if self.standin.merge(name, ANN, pull.number, method).await.is_err() {
            return "merges refused";
        }
        match self.random.below(10) {
            0 => {
                self.push_to(codebase, &pull.head_branch).await;
                "merged, with later commits"
            }
            1 => {
                self.revert(codebase).await;
                "merged and reverted"
            }
            2..4 => {
                self.delete_remote(name, &pull.head_branch).await;
                "merged, branch deleted"
            }
            _ => "merged",
        }
    }

    /// Takes back what the last commit of the base brought.
    async fn revert(&self, codebase: usize) {
        let name = &self.codebases[codebase];
        let there = self.standin.git_dir(name).expect("a repository");
        let added = git(&there, &["diff", "--name-only", "--diff-filter=A", "main^", "main"]).unwrap_or_default();
        let files: Vec<(&str, Option<&str>)> = added.lines().map(|file| (file, None)).collect();
        if let Ok(sha) = self.standin.push_commit(name, ANN, "main", "Revert", &files).await {
            self.ledger.note(&Note::Commit { codebase: name.clone(), sha });
        }
    }

    async fn push_to(&mut self, codebase: usize, branch: &str) {
        let (name, text) = (&self.codebases[codebase], self.random.next().to_string());
        let file = format!("pushed-{text}.txt");
        let pushed = self.standin.push_commit(name, ANN, branch, "From Ann", &[(&file, Some(&text))]).await;
        if let Ok(sha) = pushed {
            self.ledger.note(&Note::Commit { codebase: name.clone(), sha });
        }
    }

    fn close(&mut self) -> &'static str {
        let Some(Thread { codebase, number }) = self.random.pick(&self.threads) else { return "nothing to close" };
        match self.standin.close(&self.codebases[*codebase], ANN, *number) {
            Ok(()) => "closed",
            Err(_) => "closings refused",
        }
    }

    fn reopen(&mut self) -> &'static str {
        let Some(Thread { codebase, number }) = self.random.pick(&self.threads) else { return "nothing to reopen" };
        let (codebase, number) = (*codebase, *number);
        let _ = self.standin.reopen(&self.codebases[codebase], ANN, number);
        let task = agent::task(&mut self.random);
        self.say(codebase, number, &task);
        "reopened"
    }

    /// What is on it of Ann's she lets go: the pull request has it only until the branch is made again.
    async fn delete_remote(&self, codebase: &str, branch: &str) {
        let there = self.standin.git_dir(codebase).expect("a repository");
        let own = format!("--author={ANN}");
        let commits = git(&there, &["log", "--format=%H", &own, &format!("main..refs/heads/{branch}"), "--"]);
        for sha in commits.unwrap_or_default().lines() {
            self.ledger.note(&Note::LetGo { sha: sha.to_owned() });
        }
        let _ = self.standin.delete_branch(codebase, ANN, branch).await;
    }

    /// One that is in a pull request.
    async fn delete_branch(&mut self, store: &Store) -> &'static str {
        let Some((codebase, environment)) = self.environment(store).await else { return "no worktree" };
        let name = &self.codebases[codebase];
        let pulls = self.standin.pulls(name).expect("pull requests");
        let branch = environment.branch.to_string();
        let tip = self.standin.branch_tip(name, &branch).await.ok().flatten();
        if pulls.iter().any(|pull| pull.head_branch == branch && Some(&pull.head_sha) == tip.as_ref()) {
            self.delete_remote(name, &branch).await;
            return "branches deleted";
        }
        "branches not deleted"
    }

    async fn push(&mut self, store: &Store) -> &'static str {
        let Some((codebase, environment)) = self.environment(store).await else { return "no worktree" };
        let branch = environment.branch.to_string();
        if self.standin.branch_tip(&self.codebases[codebase], &branch).await.ok().flatten().is_none() {
            return "nothing to push to";
        }
        self.push_to(codebase, &branch).await;
        "pushes by people"
    }

    /// A live environment.
    async fn environment(&mut self, store: &Store) -> Option<(usize, Environment)> {
        let live = store.live_environments(None).await.expect("rows");
        self.one_of(store, live).await
    }

    async fn one_of(&mut self, store: &Store, all: Vec<Environment>) -> Option<(usize, Environment)> {
        let environment = self.random.pick(&all)?.clone();
        let name = store.load_codebase(environment.codebase).await.expect("a row")?.name.to_string();
        Some((self.codebases.iter().position(|known| *known == name)?, environment))
    }

    /// Somebody works in a worktree on the server, and does not commit. Not in one that is still being made, of which nobody has
    /// been told: git's checkout writes over what is there, and one that was killed is taken away with all that is in it.
    async fn work_by_hand(&mut self, store: &Store) -> &'static str {
        let Some((codebase, environment)) = self.environment(store).await else { return "no worktree" };
        let (codebase, place) = (&self.codebases[codebase], environment.path.as_path());
        let number = self.random.next();
        let text = format!("{number}\n");
        let name = match self.random.below(4) {
            0 => base_file(AGENTS_FILES + self.random.below(FILES - AGENTS_FILES)),
            1 => format!("by-hand-{number}.log"),
            2 => format!("by-hand/{number}.txt"),
            _ => format!("by-hand-{number}.txt"),
        };
        if environment.state == EnvironmentState::Creating {
            return "still being made";
        }
        let _ = room(place, &name);
        if !leave(self.ledger, (codebase, place, &name), &text) {
            return "worktree gone meanwhile";
        }
        if self.random.percent(25) {
            let _ = git(place, &["add", "--", &name]);
        }
        "files left by hand"
    }

    async fn command(&mut self, store: &Store) -> &'static str {
        let choice = self.random.below(16);
        if choice >= 12 {
            let codebase = self.codebase();
            let words = ["/worktree cleanup merged", "/worktree cleanup stale", "/stop", "/status"];
            let number = self.thread_in(codebase);
            self.say(codebase, number, words[choice as usize - 12]);
            return "other commands";
        }
        let found = match choice {
            9..12 => {
                let mut gone = store.list_environments(&EnvironmentFilter::default(), RECENT, 0).await.expect("rows");
                gone.retain(|environment| environment.state == EnvironmentState::Destroyed);
                self.one_of(store, gone).await
            }
            _ => self.environment(store).await,
        };
        let Some((codebase, environment)) = found else { return "no worktree" };
        let (number, work) = (self.thread_in(codebase), environment.work.to_string());
        let (words, what) = match choice {
            0..2 => (format!("/worktree remove {work}"), "removals asked for"),
            2..6 => (format!("/worktree remove {work} --force"), "forced removals asked for"),
            6..8 => (format!("/worktree link {work}"), "links asked for"),
            8 if self.random.percent(70) => ("/worktree unpin".to_owned(), "unpinned"),
            8 => ("/worktree pin".to_owned(), "pinned"),
            _ => (format!("/worktree restore {work}"), "restores asked for"),
        };
        self.say(codebase, number, &words);
        what
    }
}
