//! Words about the upkeep of repositories, for the panel and the log.

const MEGABYTE: u64 = 1024 * 1024;

/// Why a repository is not packed: the new pack would not fit beside the old ones.
pub fn no_room(needed: u64, free: u64) -> String {
    format!(
        "packing it takes up to {} MB on its disk until it is done, and {} MB are free; make room there",
        needed.div_ceil(MEGABYTE),
        free / MEGABYTE
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn room_is_told_in_megabytes() {
        insta::assert_snapshot!(super::no_room(300 * 1024 * 1024 + 1, 1024), @"packing it takes up to 301 MB on its disk until it is done, and 0 MB are free; make room there");
    }
}
