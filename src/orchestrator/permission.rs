//! What GitHub lets people do, remembered for a moment.

use super::{Orchestrator, StepError};
use crate::model::*;
use std::{collections::HashMap, sync::Mutex, time::Duration};

/// Permissions are asked again after this.
const PERMISSION_AGE: Duration = Duration::from_secs(120);

/// Of people who may write.
#[derive(Default)]
pub(super) struct PermissionCache {
    known: Mutex<HashMap<(RepositoryId, UserId), (Permission, Timestamp)>>,
}

impl PermissionCache {
    fn fresh(&self, key: (RepositoryId, UserId), now: Timestamp) -> Option<Permission> {
        let mut known = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        known.retain(|_, (_, at)| now.since(*at) < PERMISSION_AGE);
        known.get(&key).map(|(permission, _)| *permission)
    }

    fn remember(&self, key: (RepositoryId, UserId), permission: Permission, now: Timestamp) {
        // Somebody may be about to be given what is missing, and mentions the bot again right then.
        if permission >= Permission::Write {
            self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(key, (permission, now));
        }
    }
}

impl Orchestrator {
    /// What GitHub lets this person do on the codebase: at most two minutes old, or just asked for when it is less than to
    /// write.
    pub(super) async fn permission(&self, codebase: &Codebase, person: &Person) -> Result<Permission, StepError> {
        self.permission_known_or_asked(codebase, person, |_| true).await
    }

    /// The same for somebody who needs something: just asked for when it is less than that.
    pub(super) async fn permission_for(
        &self,
        codebase: &Codebase,
        person: &Person,
        needs: &Needs,
    ) -> Result<Permission, StepError> {
        // Whoever is named needs no word of GitHub's.
        if needs.met_by(person, Permission::None) {
            return Ok(Permission::None);
        }
        self.permission_known_or_asked(codebase, person, |known| needs.met_by(person, known)).await
    }

    /// What GitHub is known to let somebody do who may write; of everybody else nothing is known.
    pub(super) fn permission_known(&self, repository: RepositoryId, person: UserId) -> Permission {
        self.inner.permissions.fresh((repository, person), self.now()).unwrap_or(Permission::None)
    }

    async fn permission_known_or_asked(
        &self,
        codebase: &Codebase,
        person: &Person,
        is_enough: impl Fn(Permission) -> bool,
    ) -> Result<Permission, StepError> {
        // Nobody but the person of this machine speaks about what is on it only, and they are not asked about here.
        let Some(github) = self.on_github(codebase)? else { return Ok(Permission::None) };
        let key = (github.id, person.id);
        let now = self.now();
        if let Some(known) = self.inner.permissions.fresh(key, now).filter(|known| is_enough(*known)) {
            return Ok(known);
        }
        let permission = match github.client.permission(github.id, github.name, person).await {
            Ok(permission) => permission,
            Err(error) if error.is_refusal() => {
                return Err(StepError::PermissionUnknown { login: person.login.clone(), error });
            }
            Err(error) => return Err(error.into()),
        };
        self.inner.permissions.remember(key, permission, now);
        Ok(permission)
    }
}
