//! A test of how much memory something takes, in a process in which nothing else takes any: the others run side by side here.

use std::{env, fs, process::Command};

const ALONE: &str = "TREEWARDEN_TEST_ALONE";

/// Runs the test of this name once more in a process of its own, and tells how that went. False: this is that process.
pub fn ran_alone(test: &str) -> bool {
    if env::var_os(ALONE).is_some() {
        return false;
    }
    let program = env::current_exe().unwrap();
    let ran = Command::new(program).args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let (said, why) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && said.contains("1 passed"), "{said}\n{why}");
    true
}

/// Most memory that this process had so far, in bytes.
pub fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}
