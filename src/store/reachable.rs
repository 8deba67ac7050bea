//! What is asked of a database beside the service that has it: nothing is changed, and it need not be open here.

use super::{Schema, Store, StoreError, db};
use crate::model::{InstallationId, RepoName, RepositoryId};

/// A repository on GitHub that an installation of the App reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reachable {
    pub installation: InstallationId,
    pub id: RepositoryId,
    pub name: RepoName,
}

impl Store {
    /// Whether GitHub has ever delivered anything.
    pub async fn has_deliveries(url: &str) -> Result<bool, StoreError> {
        Ok(is_current(url).await? && db::a_delivery(url).await?.is_some())
    }

    /// Some repository that is reached, if there is one.
    pub async fn some_reachable(url: &str) -> Result<Option<Reachable>, StoreError> {
        match is_current(url).await? {
            true => Ok(db::reachable(url).await?.as_deref().and_then(understood)),
            false => Ok(None),
        }
    }
}

async fn is_current(url: &str) -> Result<bool, StoreError> {
    Ok(Store::schema(url).await? == Schema::Current)
}

fn understood(line: &str) -> Option<Reachable> {
    let mut words = line.splitn(3, ' ');
    let mut number = || words.next()?.parse().ok();
    let (installation, id) = (InstallationId(number()?), RepositoryId(number()?));
    Some(Reachable { installation, id, name: words.next()?.parse().ok()? })
}
