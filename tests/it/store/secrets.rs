//! The App that the set-up stores: one, sealed, and to be seen without opening or changing anything.

use super::{at, on_each_store, on_each_url};
use secrecy::{ExposeSecret, SecretString};
use treewarden::store::{AppSecrets, Sealer, Store, StoredApp, Unopened};

fn sealer(key: &str) -> Sealer {
    Sealer::new(&SecretString::from(key))
}

fn app(id: u64, sealer: &Sealer) -> StoredApp {
    let [private_key, webhook_secret, client_secret] = ["the key", "the hook", "the client"].map(SecretString::from);
    StoredApp::seal(id, "tw", "Iv1", &AppSecrets { private_key, webhook_secret, client_secret }, sealer)
}

#[tokio::test]
async fn the_first_app_stays_and_opens_by_its_key() {
    on_each_store(async |store, url| {
        let ours = sealer("thirty-two characters or more of it");
        assert_eq!(store.load_app().await.unwrap(), None);
        assert!(store.save_app(&app(7, &ours), at(1)).await.unwrap());
        assert!(!store.save_app(&app(8, &ours), at(2)).await.unwrap());
        let stored = store.load_app().await.unwrap().unwrap();
        assert_eq!((stored.app_id, &*stored.slug, &*stored.client_id), (7, "tw", "Iv1"));
        assert_eq!(stored.open(&ours).unwrap().webhook_secret.expose_secret(), "the hook");
        assert_eq!(stored.open(&sealer("another key of thirty-two letters")).unwrap_err(), Unopened::OtherKey);
        assert_eq!(Store::stored_app(url).await.unwrap(), Some(stored));
    })
    .await;
}

#[tokio::test]
async fn one_that_cannot_be_read_is_not_taken_for_none() {
    on_each_store(async |store, url| {
        store.set_setting("app/credentials", &serde_json::json!({"of": "a later version"}), at(1)).await.unwrap();
        assert!(store.load_app().await.unwrap_err().is_corrupt());
        assert!(Store::stored_app(url).await.unwrap_err().is_corrupt());
    })
    .await;
}

#[tokio::test]
async fn a_look_makes_no_database() {
    on_each_url(async |url| {
        assert!(Store::stored_app(&url).await.is_err());
        if let Some(path) = url.strip_prefix("sqlite://") {
            assert!(!std::path::Path::new(path).exists());
        }
    })
    .await;
}
