//! Views of the file systems that only one process and its children have.

use std::process::Command;

/// `unshare` with a namespace this user may make.
pub fn unshare() -> Vec<&'static str> {
    match rustix::process::geteuid().is_root() {
        true => vec!["--mount"],
        false => vec!["--mount", "--user", "--map-root-user"],
    }
}

pub fn may_mount() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let tried =
        Command::new("unshare").args(unshare()).args(["mount", "-t", "tmpfs", "tmpfs"]).arg(dir.path()).output();
    let allowed = tried.is_ok_and(|output| output.status.success());
    if !allowed {
        eprintln!("not checked: this machine allows no mount namespaces");
    }
    allowed
}
