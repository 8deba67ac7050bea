//! Where the doctor was asked, and so in which way a setting is changed there: in the shell that the service is started
//! from, or in the file that systemd gives it, as docs/operations.md sets it up. That file is changed only where the settings
//! that were looked at are that service's. Commands are built here only.

use super::mend::{Mend, run};
use super::root::{by_root, not_written_through};
use crate::config::{self, Config, Flags, Origin};
use crate::reply::shell;
use rustix::fs::{Access, access};
use rustix::process::geteuid;
use std::{
    borrow::Cow,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// What systemd's service has its environment from.
const SERVICE_ENV: &str = "/etc/treewarden/treewarden.env";
/// Without it nothing that was changed there counts.
pub(super) const RESTART: &str = "sudo systemctl restart treewarden";
/// Where docs/operations.md has the service's program.
const PROGRAM: &str = "/usr/local/bin/treewarden";

#[derive(Clone)]
pub(super) struct Asked {
    pub flags: Flags,
    /// Asked as the service that systemd starts: the file with its environment.
    service: Option<PathBuf>,
    /// The same file, of a service whose settings are not those that are looked at.
    other_service: Option<PathBuf>,
}

impl Asked {
    pub fn here(flags: &Flags) -> Self {
        Self::beside(flags, Path::new(SERVICE_ENV), config::is_given_by_systemd(flags))
    }

    /// `as_service`: with the settings of the service, where there is one.
    pub fn beside(flags: &Flags, service_env: &Path, as_service: bool) -> Self {
        let file = may_be_there(service_env).then(|| service_env.to_owned());
        let (service, other_service) = if as_service { (file, None) } else { (None, file) };
        Self { flags: flags.clone(), service, other_service }
    }

    /// The same place, asked about another home.
    pub fn about(&self, home: Option<PathBuf>) -> Self {
        Self { flags: Flags { home, ..self.flags.clone() }, ..self.clone() }
    }

    /// The same place, by the settings file of the home.
    pub fn by_the_home(&self) -> Self {
        Self { flags: Flags { config: None, ..self.flags.clone() }, ..self.clone() }
    }

    pub fn is_service(&self) -> bool {
        self.service.is_some()
    }

    /// The file with the settings of the service that systemd starts here, where those are others, and how it is asked by them.
    pub fn other_service(&self) -> Option<(&Path, Mend)> {
        let file = self.other_service.as_deref()?;
        let here = || std::env::current_exe().unwrap_or_else(|_| PROGRAM.into());
        let program = Some(PathBuf::from(PROGRAM)).filter(|program| program.exists()).unwrap_or_else(here);
        let ask = format!(
            "sudo systemd-run --quiet --collect --wait --pipe -p User=treewarden -p EnvironmentFile={} {} doctor",
            quoted(file),
            quoted(&program)
        );
        Some((file, run(ask)))
    }

    /// The same question again; `tw` is the function that docs/operations.md gives the service's shell.
    pub fn again(&self) -> String {
        let mut command = if self.is_service() { "tw doctor" } else { "treewarden doctor" }.to_owned();
        for (flag, path) in [("config", &self.flags.config), ("home", &self.flags.home)] {
            command.extend(path.iter().map(|path| format!(" --{flag} {}", quoted(path))));
        }
        command
    }

    /// A start of the service.
    pub fn start(&self) -> Mend {
        let mut command = "treewarden serve".to_owned();
        for (flag, path) in [("config", &self.flags.config), ("home", &self.flags.home)] {
            command.extend(path.iter().map(|path| format!(" --{flag} {}", quoted(path))));
        }
        Mend::Run(if self.is_service() { RESTART.to_owned() } else { command })
    }

    /// The question by the settings of the service that runs.
    pub fn again_with(&self, values: &[(&str, &str)]) -> Mend {
        let words: Vec<String> =
            values.iter().map(|(name, value)| format!("{name}={}", shell::quoted(value))).collect();
        match self.is_service() {
            // It got its settings from the files that are looked at, and they were changed since.
            true => Mend::Run(RESTART.to_owned()),
            false => Mend::Run(format!("{} {}", words.join(" "), self.again())),
        }
    }

    /// Gives variables a value, which counts before that of the settings file.
    pub fn set(&self, values: &[(&str, &str)]) -> Mend {
        let words = values.iter().map(|(name, value)| match &self.service {
            None => format!("{name}={}", shell::quoted(value)),
            Some(_) => shell::quoted(&format!("{name}={}", for_systemd(value))),
        });
        self.put(words.collect::<Vec<_>>().join(" "))
    }

    /// The same for what stands in the shell's own words.
    pub fn put(&self, words: String) -> Mend {
        let Some(file) = &self.service else { return run(format!("export {words}")) };
        // The file's last line may lack its end; of two lines with one name the later counts.
        let add = || run(format!("printf '\\n%s\\n' {words} | sudo tee -a {} && {RESTART}", quoted(file)));
        not_written_through(file).unwrap_or_else(add)
    }

    /// Asks for a value that only a person knows, where the setting stands now.
    pub fn fill(&self, config: &Config, name: &str, hint: &str) -> Mend {
        match config.origin(name) {
            Some(Origin::File(path)) => self.edit(path),
            Some(Origin::Environment | Origin::Flag) | None => self.set(&[(name, hint)]),
        }
    }

    /// Gives a setting its default again; nothing where it has it.
    pub fn forget(&self, config: &Config, name: &str) -> Option<Mend> {
        config.origin(name).map(|origin| match origin {
            Origin::File(path) => self.edit(path),
            Origin::Environment | Origin::Flag => self.unset(&[name]),
        })
    }

    pub fn unset(&self, names: &[&str]) -> Mend {
        let Some(file) = &self.service else { return run(format!("unset {}", names.join(" "))) };
        let lines: Vec<String> = names.iter().map(|name| format!("/^{name}=/d")).collect();
        let follow = if file.is_symlink() { " --follow-symlinks" } else { "" };
        let take = || run(format!("sudo sed -i{follow} '{}' {} && {RESTART}", lines.join(";"), quoted(file)));
        not_written_through(file).unwrap_or_else(take)
    }

    pub fn edit(&self, file: &Path) -> Mend {
        let file = quoted(file);
        Mend::Run(match self.is_service() {
            true => format!("sudoedit {file} && {RESTART}"),
            false => format!("${{EDITOR:-vi}} {file}"),
        })
    }

    /// The file with the service's environment, for values that do not go into one line of a shell.
    pub fn edit_environment(&self) -> Option<Mend> {
        self.service.as_deref().map(|file| self.edit(file))
    }

    /// Whether this is a key beside the file with the service's environment, where the unit lets no agent write.
    pub fn is_beside_environment(&self, file: &Path) -> bool {
        let place = self.service.as_deref().and_then(Path::parent);
        place.is_some() && file.parent() == place && file.extension().is_some_and(|extension| extension == "pem")
    }

    /// A program with its arguments, by whoever may do that to `place`: this user wherever that is enough.
    pub fn on(&self, place: &Path, command: String) -> Mend {
        match (is_own(place), self.is_service()) {
            (true, false) => run(command),
            (true, true) => run(format!("sudo -u '#{}' {command}", user())),
            (false, _) => by_root(place, command),
        }
    }

    /// Makes directories that nobody but this user comes into.
    pub fn make(&self, directories: &[&Path]) -> Mend {
        let names: Vec<String> = directories.iter().map(|directory| quoted(directory)).collect();
        let names = names.join(" ");
        match directories.iter().find(|directory| !is_own(directory)) {
            Some(directory) => by_root(directory, format!("install -d -m 700 -o {} {names}", user())),
            None => self.on(directories[0], format!("mkdir -p -m 700 {names}")),
        }
    }

    /// Puts a file in the place of another, which is kept beside it.
    pub fn place(&self, what: &str, file: &Path) -> Mend {
        let to = quoted(file);
        match (self.is_service(), file.parent().filter(|directory| !directory.exists())) {
            (true, _) => by_root(file, format!("install -b -m 600 -o {} '{what}' {to} && {RESTART}", user())),
            (false, None) => run(format!("install -b -m 600 '{what}' {to}")),
            (false, Some(directory)) => {
                run(format!("mkdir -p -m 700 {} && install -m 600 '{what}' {to}", quoted(directory)))
            }
        }
    }
}

/// What lies in a directory that this user does not get into may be there.
fn may_be_there(file: &Path) -> bool {
    match fs::metadata(file) {
        Ok(there) => there.is_file(),
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

/// Whether a place is this user's; one that is not there yet, whether this user can make it.
pub(super) fn is_own(place: &Path) -> bool {
    let above = || place.ancestors().skip(1).find(|above| above.exists());
    match fs::metadata(place) {
        Ok(there) => there.uid() == user(),
        Err(_) => above().is_some_and(|above| access(above, Access::WRITE_OK).is_ok()),
    }
}

/// The number of whoever runs this.
pub(super) fn user() -> u32 {
    geteuid().as_raw()
}

pub(super) fn quoted(path: &Path) -> String {
    shell::quoted(&path.display().to_string())
}

/// As systemd reads it from an environment file: quotes count where the value begins, backslashes everywhere.
fn for_systemd(value: &str) -> Cow<'_, str> {
    match value.starts_with(['"', '\'']) || value.contains('\\') {
        true => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")).into(),
        false => value.into(),
    }
}
