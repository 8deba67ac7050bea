//! Embedding the migrations happens in a macro, and cargo does not see that by itself: a new or changed file must rebuild.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
