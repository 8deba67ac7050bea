//! Secrets at rest. What is secret of an App lies in the database sealed, with a key that is never in the database, and
//! bound to the App it is of: the sealed text of another row, or of another App, does not open in its place.
//!
//! What may not live here: where the key comes from, and what becomes of secrets that do not open.

use super::sql::sql;
use super::{Store, StoreError, corrupt, db};
use crate::model::Timestamp;
use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey},
    hkdf,
};
use base64::{Engine, prelude::BASE64_STANDARD as BASE64};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

/// The setting that holds the App of the set-up.
const APP: &str = "app/credentials";
/// Of the layout of a sealed text: this byte, the key's mark, the nonce, what is sealed with its tag.
const VERSION: u8 = 1;
const MARK_LEN: usize = 4;
const KEY_LEN: usize = 32;
/// What is derived from the key is of use here only.
const SALT: &[u8] = b"treewarden secrets at rest";

/// Why something sealed does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unopened {
    /// It was sealed with another key.
    OtherKey,
    /// The key is right, and what is stored is not what was stored.
    Damaged,
}

/// Seals texts, and opens what it has sealed: AES-256-GCM, with a key derived by HKDF-SHA256.
pub struct Sealer {
    key: RandomizedNonceKey,
    /// Says which key it is, and nothing about it.
    mark: [u8; MARK_LEN],
}

impl Sealer {
    /// By any text of 32 characters or more that nobody guesses.
    pub fn new(key: &SecretString) -> Self {
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(key.expose_secret().as_bytes());
        let (bytes, mark) = (derived::<KEY_LEN>(&secret, b"key"), derived::<MARK_LEN>(&secret, b"mark"));
        Self { key: RandomizedNonceKey::new(&AES_256_GCM, &bytes).expect("a key of the right length"), mark }
    }

    /// `name` is what it is: it opens under that one only.
    fn seal(&self, name: &str, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        let nonce = self.key.seal_in_place_append_tag(Aad::from(name), &mut bytes);
        let nonce = nonce.expect("the system gives random bytes, and no secret is gigabytes long");
        BASE64.encode([&[VERSION][..], &self.mark, &nonce.as_ref()[..], &bytes].concat())
    }

    fn open(&self, name: &str, sealed: &str) -> Result<String, Unopened> {
        let bytes = BASE64.decode(sealed).map_err(|_| Unopened::Damaged)?;
        let (version, rest) = bytes.split_first().ok_or(Unopened::Damaged)?;
        let (mark, rest) = rest.split_at_checked(MARK_LEN).ok_or(Unopened::Damaged)?;
        let (nonce, rest) = rest.split_at_checked(NONCE_LEN).ok_or(Unopened::Damaged)?;
        match (*version, mark == self.mark) {
            (VERSION, true) => {}
            (VERSION, false) => return Err(Unopened::OtherKey),
            (_, _) => return Err(Unopened::Damaged),
        }
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Unopened::Damaged)?;
        let mut rest = rest.to_vec();
        let text = self.key.open_in_place(nonce, Aad::from(name), &mut rest).map_err(|_| Unopened::Damaged)?;
        String::from_utf8(text.to_vec()).map_err(|_| Unopened::Damaged)
    }
}

fn derived<const LENGTH: usize>(secret: &hkdf::Prk, what: &[u8]) -> [u8; LENGTH] {
    struct Bytes(usize);
    impl hkdf::KeyType for Bytes {
        fn len(&self) -> usize {
            self.0
        }
    }
    let mut bytes = [0; LENGTH];
    let what = [what];
    let derived = secret.expand(&what, Bytes(LENGTH)).and_then(|derived| derived.fill(&mut bytes));
    derived.expect("HKDF gives as many bytes");
    bytes
}

/// What is secret of an App.
#[derive(Clone, Debug)]
pub struct AppSecrets {
    /// PEM.
    pub private_key: SecretString,
    pub webhook_secret: SecretString,
    pub client_secret: SecretString,
}

/// How they are written before they are sealed.
#[derive(Serialize)]
struct Written<'a> {
    private_key: &'a str,
    webhook_secret: &'a str,
    client_secret: &'a str,
}

/// The App that the set-up made, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredApp {
    pub app_id: u64,
    /// As GitHub called it when it was made.
    pub slug: String,
    pub client_id: String,
    /// Whoever made it wished that its deliveries be fetched.
    #[serde(default)]
    pub fetches: bool,
    sealed: String,
}

impl StoredApp {
    pub fn seal(app_id: u64, slug: &str, client_id: &str, secrets: &AppSecrets, sealer: &Sealer) -> Self {
        let written = Written {
            private_key: secrets.private_key.expose_secret(),
            webhook_secret: secrets.webhook_secret.expose_secret(),
            client_secret: secrets.client_secret.expose_secret(),
        };
        let text = SecretString::from(serde_json::to_string(&written).expect("plain data"));
        let sealed = sealer.seal(&name(app_id), text.expose_secret());
        Self { app_id, slug: slug.to_owned(), client_id: client_id.to_owned(), fetches: false, sealed }
    }

    pub fn fetching(self, fetches: bool) -> Self {
        Self { fetches, ..self }
    }

    pub fn open(&self, sealer: &Sealer) -> Result<AppSecrets, Unopened> {
        #[derive(Deserialize)]
        struct Read {
            private_key: SecretString,
            webhook_secret: SecretString,
            client_secret: SecretString,
        }
        let text = SecretString::from(sealer.open(&name(self.app_id), &self.sealed)?);
        let read: Read = serde_json::from_str(text.expose_secret()).map_err(|_| Unopened::Damaged)?;
        let Read { private_key, webhook_secret, client_secret } = read;
        Ok(AppSecrets { private_key, webhook_secret, client_secret })
    }
}

/// Under which an App's secrets are sealed.
fn name(app_id: u64) -> String {
    format!("{APP}/{app_id}")
}

impl Store {
    /// The App that is stored in the database this URL names; changes nothing.
    pub async fn stored_app(url: &str) -> Result<Option<StoredApp>, StoreError> {
        let written = db::stored_app(url).await?;
        written.map(|text| serde_json::from_str(&text).map_err(|error| corrupt("value", error))).transpose()
    }

    /// One that this version cannot read is an error: nobody is to make another App in its place.
    pub async fn load_app(&self) -> Result<Option<StoredApp>, StoreError> {
        let value = self.setting(APP).await?;
        value.map(|value| serde_json::from_value(value).map_err(|error| corrupt("value", error))).transpose()
    }

    /// False when there is one already, which stays.
    pub async fn save_app(&self, app: &StoredApp, now: Timestamp) -> Result<bool, StoreError> {
        let sql =
            sql!("INSERT INTO settings (key, value, updated_at) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING");
        Ok(self.db.execute(sql.bind(APP).bind_json(app)?.bind(now)).await? > 0)
    }

    /// Whatever stands in its place, and whether or not its key is there; answers with its slug.
    pub async fn forget_app(&self) -> Result<Option<String>, StoreError> {
        let Some(value) = self.setting(APP).await? else { return Ok(None) };
        self.db.execute(sql!("DELETE FROM settings WHERE key = $1").bind(APP)).await?;
        Ok(Some(value["slug"].as_str().unwrap_or("?").to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(key: &str) -> Sealer {
        Sealer::new(&SecretString::from(key))
    }

    fn secrets() -> AppSecrets {
        let [private_key, webhook_secret, client_secret] = ["a key", "a hook", "a client"].map(SecretString::from);
        AppSecrets { private_key, webhook_secret, client_secret }
    }

    #[test]
    fn what_is_sealed_opens_by_its_key_and_under_its_name_only() {
        let (ours, other) = (sealer("0123456789abcdef0123456789abcdef"), sealer("another key of thirty-two letters"));
        let sealed = ours.seal("a", "the text");
        assert_ne!(sealed, ours.seal("a", "the text"), "each time by a nonce of its own");
        assert_eq!(ours.open("a", &sealed).as_deref(), Ok("the text"));
        assert_eq!(ours.open("b", &sealed), Err(Unopened::Damaged));
        assert_eq!(other.open("a", &sealed), Err(Unopened::OtherKey));
        for broken in ["", "AQ==", "no base64 at all", &sealed[..sealed.len() - 8]] {
            assert_eq!(ours.open("a", broken), Err(Unopened::Damaged), "{broken}");
        }
    }

    #[test]
    fn whatever_is_changed_in_it_it_does_not_open() {
        let ours = sealer("0123456789abcdef0123456789abcdef");
        let bytes = BASE64.decode(ours.seal("a", "the text")).unwrap();
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert!(ours.open("a", &BASE64.encode(changed)).is_err(), "byte {place}");
        }
    }

    #[test]
    fn an_app_is_stored_with_nothing_secret_to_be_read() {
        let ours = sealer("0123456789abcdef0123456789abcdef");
        let stored = StoredApp::seal(7, "tw", "Iv1", &secrets(), &ours);
        let seen = format!("{stored:?}{}", serde_json::to_string(&stored).unwrap());
        let open = stored.open(&ours).unwrap();
        for secret in [&open.private_key, &open.webhook_secret, &open.client_secret] {
            assert!(!seen.contains(secret.expose_secret()) && secret.expose_secret().starts_with("a "), "{seen}");
            assert!(!format!("{open:?}").contains(secret.expose_secret()));
        }
        let of_another = StoredApp { app_id: 8, ..stored };
        assert_eq!(of_another.open(&ours).unwrap_err(), Unopened::Damaged);
    }
}
