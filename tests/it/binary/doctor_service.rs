//! The doctor on a machine where systemd starts a service: in namespaces of its own, with an `/etc` of its own, and a shell
//! that is the first process, as systemd is. Where the machine allows no such namespaces, these tests say so and check nothing.

use super::doctor::complaints;
use super::*;
use crate::support::namespace::{may_mount, unshare};
use std::{fs, os::unix::fs::PermissionsExt};

/// Its first argument is run before the program. Of the machine's own `/etc` the certificates stay.
const MACHINE: &str = "mount -t tmpfs tmpfs /mnt && { cp -a /etc/ssl /etc/pki /mnt 2>/dev/null; true; } && \
                       mount -t tmpfs -o mode=755 tmpfs /etc && cp -a /mnt/. /etc && mkdir -m 700 /etc/treewarden && \
                       touch /etc/treewarden/treewarden.env && eval \"$0\" && { \"$@\"; exit $?; }";
/// A terminal that systemd started hands its variable on.
const PERSON: [&str; 4] = ["sh", "-c", "\"$@\"; exit $?", "sh"];
const OTHER_USER: [&str; 4] = ["setpriv", "--reuid=7", "--regid=7", "--clear-groups"];

/// The doctor as `by` asks it, with the variables of `command`.
fn on_a_machine(before: &str, by: &[&str], command: Command) -> Command {
    let mut inside = Command::new("unshare");
    inside.args(unshare()).args(["--pid", "--fork", "sh", "-c", MACHINE, before]).args(by).args([PROGRAM, "doctor"]);
    inside.env_clear().env("INVOCATION_ID", "0123456789abcdef0123456789abcdef");
    inside.envs(command.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
    inside
}

#[tokio::test]
async fn the_settings_of_a_service_are_changed_only_where_they_were_looked_at() {
    if !may_mount() {
        return;
    }
    let installation = Installation::new().await;
    let lacking = || {
        let mut command = installation.command(&["doctor"]);
        command.env_remove("GITHUB_WEBHOOK_SECRET");
        command
    };
    let as_service = complaints(on_a_machine("true", &[], lacking())).await;
    let added = "printf '\\n%s\\n' 'GITHUB_WEBHOOK_SECRET=<the webhook secret of its page>' | \
                 sudo tee -a /etc/treewarden/treewarden.env && sudo systemctl restart treewarden";
    assert_eq!((&*as_service[0].2, &*as_service[1].2), (added, "tw doctor"));
    let by_person = complaints(on_a_machine("true", &PERSON, lacking())).await;
    let (what, seen, mend) = &by_person[0];
    assert!(what == "systemd" && seen.contains("/etc/treewarden/treewarden.env"), "{by_person:?}");
    let asks = "sudo systemd-run --quiet --collect --wait --pipe -p User=treewarden \
                -p EnvironmentFile=/etc/treewarden/treewarden.env ";
    assert!(mend.starts_with(asks) && mend.ends_with("/treewarden doctor"), "{mend}");
    assert!(by_person.len() > 1 && by_person[1..].iter().all(|(_, _, mend)| mend.is_empty()), "{by_person:?}");
    // By whoever's settings they are.
    let healthy = || installation.command(&["doctor"]);
    for by in [&[][..], &PERSON] {
        assert_eq!(complaints(on_a_machine("true", by, healthy())).await, []);
    }
    let elsewhere = installation.dir.path().join("elsewhere");
    let mut other_home = on_a_machine("true", &[], lacking());
    other_home.arg("--home").arg(elsewhere);
    assert_eq!(complaints(other_home).await[0].0, "systemd", "not the home of the environment");
}

/// What root laid there, as with every other directory in `/etc`, is shown to the service's user, and no setting is blamed.
#[tokio::test]
async fn a_key_of_roots_beside_the_settings_is_given_to_the_service() {
    if !may_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let installation = Installation::new().await;
    let home = installation.dir.path().join("home");
    fs::set_permissions(installation.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    let key = installation.dir.path().join("app.pem");
    fs::write(&key, installation.standin.private_key_pem().expose_secret()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let settings = home.join("treewarden.toml");
    for file in [&home, &settings] {
        let named = "github_app_private_key_file = '/etc/treewarden/app.pem'\n";
        let _ = fs::write(&settings, named);
        std::os::unix::fs::chown(file, Some(7), Some(7)).unwrap();
    }
    let command = || {
        let mut command = installation.command(&["doctor"]);
        command.env_remove("GITHUB_APP_PRIVATE_KEY").env("HOME", "/");
        command
    };
    let copied = format!("cp -p '{}' /etc/treewarden/app.pem", key.display());
    let mut before = copied.clone();
    for mend in ["chmod a+x /etc/treewarden", "chown -h 7 /etc/treewarden/app.pem"] {
        let wrong = complaints(on_a_machine(&before, &OTHER_USER, command())).await;
        assert_eq!(wrong[0].2, format!("sudo {mend}"), "{wrong:?}");
        before = format!("{before} && {mend}");
    }
    assert_eq!(complaints(on_a_machine(&before, &OTHER_USER, command())).await, []);
    // Of another file root is not asked: an agent may have written its name.
    let elsewhere = installation.dir.path().join("app.pem");
    fs::write(&settings, format!("github_app_private_key_file = '{}'\n", elsewhere.display())).unwrap();
    let wrong = complaints(on_a_machine("true", &OTHER_USER, command())).await;
    assert!(wrong[0].2.starts_with("sudoedit "), "{wrong:?}");
    let give = format!("this gives it to the service's user: sudo chown -h 7 {}", elsewhere.display());
    assert!(wrong[0].1.contains(&give) && wrong[0].1.contains("one may have written its name"), "{wrong:?}");
}

/// The unit starts with what the link leads to: without it the service has neither home nor secrets.
#[tokio::test]
async fn the_settings_of_a_service_stay_where_a_link_leads_to_them() {
    if !may_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let installation = Installation::new().await;
    let lacking = || {
        let mut command = installation.command(&["doctor"]);
        command.env("HOME", "/").env("TREEWARDEN_HOME", "/etc/home").env("TREEWARDEN_AGENT_ENV", "MODEL_KEY");
        command
    };
    let home = "mkdir -m 700 /etc/home && chown 7 /etc/home && cd /etc/treewarden && mv treewarden.env x";
    let mut before = format!("{home} && ln -s /etc/treewarden/x treewarden.env && chown 7:7 .");
    let wrong = complaints(on_a_machine(&before, &OTHER_USER, lacking())).await;
    let mend = "chown 0:7 /etc/treewarden && sudo chmod 750 /etc/treewarden";
    assert!(wrong.len() == 1 && wrong[0].1.contains("so root writes nothing through it"), "{wrong:?}");
    assert_eq!(wrong[0].2, format!("sudo {mend}"));
    before = format!("{before} && {}", mend.replace("sudo ", ""));
    let wrong = complaints(on_a_machine(&before, &OTHER_USER, lacking())).await;
    assert!(wrong[0].2.contains("| sudo tee -a /etc/treewarden/treewarden.env && "), "{wrong:?}");
    let others = format!("{home} && ln -s x treewarden.env && chown -h 7 treewarden.env && chown 7:7 .");
    let wrong = complaints(on_a_machine(&others, &OTHER_USER, lacking())).await;
    assert_eq!(wrong[0].2, "sudo ls -l /etc/treewarden/treewarden.env", "{wrong:?}");
}
