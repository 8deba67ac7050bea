//! Whether a place outlives the machine's next start, or the container it is in.

use std::path::Path;

/// `f_type` of such file systems, as statfs(2) lists them.
const SHORT_LIVED: [(u64, &str); 3] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs"), (0x794c_7630, "overlay")];

/// What kind of file system `place` is on, when all on it goes with the next start or with the container.
pub(super) fn kind(place: &Path) -> Option<&'static str> {
    let seen = rustix::fs::statfs(place).ok()?;
    // The width and the sign of the field depend on the machine.
    let seen = u64::from(seen.f_type as u32);
    SHORT_LIVED.into_iter().find(|(known, _)| *known == seen).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// BR-202
    #[test]
    fn memory_is_short_lived_and_a_disk_is_not() {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        for line in mounts.lines() {
            let [_, place, kind_of, ..] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
            let expected = match kind_of {
                "tmpfs" => Some("tmpfs"),
                "ext4" | "xfs" | "btrfs" | "proc" => None,
                _ => continue,
            };
            // Another one may be mounted over it.
            if mounts.lines().filter(|other| other.split(' ').nth(1) == Some(place)).count() == 1
                && Path::new(place).is_dir()
            {
                assert_eq!(kind(Path::new(place)), expected, "{line}");
            }
        }
    }
}
