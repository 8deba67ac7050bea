//! Treewarden: a self-hosted GitHub App that gives each piece of agent work its own git worktree and never loses work.
//!
//! # The way through
//!
//! ```text
//! GitHub ──POST──▶ web::webhook ─verify─▶ orchestrator::arrive ──▶ store::inbox (durable, de-duplicated) ──▶ 202
//! GitHub ◀──GET─── orchestrator::missed ──▶ the same, for what never came in, or where nothing can
//! this machine ──POST──▶ web::local ─token─▶   │ claim, oldest first per conversation; `/stop` out of turn
//!   github::payload, platform::local ◀──── orchestrator::intake ────▶ command::{mention, grammar}
//!                                               ▼  Event, Request (our words)
//!                      orchestrator::gather ── asks store, git, github ──▶ facts (a snapshot)
//!                                               ▼
//!   decide::{admit, approve, resolve, branches, pristine, retire, create, follow, deliver, cleanup, late, orphans,
//!     restore, reconcile, missed, schedule, maintenance, import}(&facts) ──▶ what to do, and why   ← pure
//!                                               ▼
//!      orchestrator::{prepare, runs, deliver, sweep, maintenance, retention} ── repeatable effects ──▶ isolation · git · agent · store
//!                                               ▼
//!                      reply (pure text) ──▶ store::outbox ──▶ platform ──▶ github, local_messages
//! timer, button, command, CLI ──▶ orchestrator::sweep ──▶ the same facts, verdict, effects
//! browser ──▶ web::pages ──▶ store (read) · orchestrator verbs (write)
//! ```
//!
//! # What always holds
//!
//! 1. **Gather, decide, apply.** Policy is a pure function over facts; a failed probe is [`model::Probe::Unknown`], never
//!    "no", and every doubt makes the answer more careful.
//! 2. **Durable at both ends.** Nothing is acknowledged before it is on disk, nothing is sent except from the outbox, and
//!    every effect can be repeated. After `kill -9` anywhere the next start comes to the same end.
//! 3. **Nothing is lost.** A worktree goes only with proof; its branch goes only when its work is in the base; what was
//!    removed has a receipt.
//! 4. **One door for each outside world:** `git::command`, `store::db`, `github::client`, `agent::process`. Nothing else
//!    starts a process, speaks SQL, or calls an API, and only `config` reads the environment.
//! 5. **The service runs nothing that an agent or a repository can write:** no hooks, no filters, no shell. What a
//!    repository asks for in [`repo_settings`] comes from its default branch only, and never exceeds the server's limits. An
//!    agent meets a fork's commit only once a person with write permission approved that very commit.
//!
//! Modules below stand in reading order; each may import those above it in the table of `tests/it/structure.rs`.

pub mod model;

pub mod command;
pub mod decide;
pub mod reply;
pub mod repo_settings;

pub mod plain_file;
pub mod telemetry;

pub mod agent;
pub mod git;
pub mod github;
pub mod isolation;
pub mod platform;
pub mod store;

pub mod orchestrator;

pub mod web;

pub mod cli;
pub mod config;

pub mod demo;

pub mod app;
