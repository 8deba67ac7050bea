//! crate
pub mod agent;
pub mod app;
pub mod cli;
pub mod command;
pub mod config;
pub mod decide;
pub mod demo;
pub mod git;
pub mod github;
pub mod isolation;
pub mod model;
pub mod orchestrator;
pub mod platform;
pub mod reply;
pub mod store;
pub mod telemetry;
pub mod web;
