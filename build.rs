//! Rebuilds when a migration is added; `sqlx::migrate!` reads the folders at compile time.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
