//! Stories: what people do on GitHub, and what they get for it, through the whole product.

mod access;
mod adoption;
mod approval;
mod closing;
mod commands;
mod disk;
mod faults;
mod furnishing;
mod issues;
mod kinds;
mod limits;
mod linked;
mod local;
mod merged;
mod missed;
mod orders;
mod people;
mod places;
mod postgres;
mod pulls;
mod remote;
mod rewritten;
mod settings;
mod stopping;
mod trash;
mod trouble;
