//! The App that is connected, if one is: by the settings at start, or later, once it was set up.

use super::{AppIdentity, Github};
use std::sync::{Arc, LazyLock, OnceLock};

static NOBODY: LazyLock<AppIdentity> = LazyLock::new(AppIdentity::nobody);

/// GitHub, and who we are there.
#[derive(Clone)]
pub struct Connection {
    pub github: Github,
    pub identity: AppIdentity,
    /// GitHub sends nothing here: all that it would is fetched.
    pub fetches: bool,
}

/// Where everybody finds the connection. It is made once and then stays; all clones are one.
#[derive(Clone, Default)]
pub struct Wire {
    connection: Arc<OnceLock<Connection>>,
}

impl Wire {
    pub fn connected(connection: Connection) -> Self {
        Self { connection: Arc::new(OnceLock::from(connection)) }
    }

    /// False when there is a connection already, which stays.
    pub fn connect(&self, connection: Connection) -> bool {
        self.connection.set(connection).is_ok()
    }

    /// Absent: no App is connected (yet), and there are only repositories on this machine.
    pub fn connection(&self) -> Option<&Connection> {
        self.connection.get()
    }

    pub fn github(&self) -> Option<&Github> {
        self.connection().map(|connection| &connection.github)
    }

    /// Of the App; while there is none, the one under whose name work is committed all the same.
    pub fn identity(&self) -> &AppIdentity {
        self.connection().map_or(&NOBODY, |connection| &connection.identity)
    }
}
