//! The one integration test binary: each room's tests against the real thing (git, SQLite and PostgreSQL, HTTP,
//! processes), and the stories that go through all of them.

mod agent;
mod binary;
mod crash;
mod git;
mod git_commit;
mod git_copies;
mod git_inside;
mod git_keepsake;
mod git_lab;
mod git_leftovers;
mod git_lfs;
mod git_maintenance;
mod git_own_files;
mod git_refs;
mod git_repair;
mod git_security;
mod git_submodules;
mod git_worktree;
mod github;
mod import;
mod isolation;
mod isolation_crash;
mod standin;
mod store;
mod stories;
mod structure;
mod support;
mod web;
