//! Who may call: the App's key and JSON web tokens, installation tokens with their scope and end, and people's OAuth
//! tokens.
//!
//! GitHub's rules: https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app

use super::{model::Moment, refusal::Refusal};
use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der},
    error::Unspecified,
    rsa::{KeyPair, KeySize},
    signature::KeyPair as _,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, LazyLock},
};

/// How far an App's token may reach in one area; `Write` includes `Read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Read,
    Write,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Read => "read",
            Level::Write => "write",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "read" => Some(Level::Read),
            "write" | "admin" => Some(Level::Write),
            _ => None,
        }
    }
}

pub(super) type Permissions = BTreeMap<String, Level>;

/// Everything the stand-in can tell an App that asked for it.
pub(super) const EVENTS: [&str; 8] = [
    "check_run",
    "issue_comment",
    "issues",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "push",
    "repository",
];

/// The App as it is registered.
pub(super) struct AppIdentity {
    pub id: i64,
    pub slug: String,
    pub name: String,
    pub bot: i64,
    pub client_id: String,
    pub client_secret: String,
    pub permissions: Permissions,
    /// What it subscribed to.
    pub events: BTreeSet<String>,
    pub key: Arc<AppKey>,
    /// Absent for the one that is there from the start.
    pub owner: Option<i64>,
    /// Whether others than its owner may install it.
    pub public: bool,
    /// Where whoever has installed it is led.
    pub setup_url: Option<String>,
    /// Known for one that was registered from a manifest.
    pub webhook_secret: Option<String>,
}

/// A new RSA key of 2048 bits for each process: to find one takes longer than all else a stand-in does to begin.
pub(super) struct AppKey {
    pub private_pem: String,
    /// PKCS #1, as `jsonwebtoken` wants it.
    public: Vec<u8>,
}

impl AppKey {
    fn of_this_process() -> Result<Arc<Self>, Refusal> {
        static KEY: LazyLock<Result<Arc<AppKey>, Unspecified>> = LazyLock::new(|| AppKey::generate().map(Arc::new));
        KEY.clone().map_err(|_| Refusal::Git("no RSA key could be made".to_owned()))
    }

    pub fn generate() -> Result<Self, Unspecified> {
        let pair = KeyPair::generate(KeySize::Rsa2048)?;
        let private: Pkcs8V1Der<'_> = pair.as_der()?;
        Ok(Self { private_pem: pem(private.as_ref()), public: pair.public_key().as_ref().to_vec() })
    }
}

impl AppIdentity {
    /// An App that may do all the stand-in knows.
    pub fn generate(id: i64, bot: i64, slug: &str) -> Result<Self, Refusal> {
        let key = AppKey::of_this_process()?;
        let wanted = [
            ("checks", Level::Write),
            ("contents", Level::Write),
            ("issues", Level::Write),
            ("members", Level::Read),
            ("metadata", Level::Read),
            ("pull_requests", Level::Write),
        ];
        Ok(Self {
            id,
            slug: slug.to_owned(),
            name: slug.to_owned(),
            bot,
            client_id: format!("Iv23{}", &random_text()[..16]),
            client_secret: random_text(),
            permissions: wanted.map(|(area, level)| (area.to_owned(), level)).into(),
            events: EVENTS.map(str::to_owned).into(),
            key,
            owner: None,
            public: false,
            setup_url: None,
            webhook_secret: None,
        })
    }

    /// Whether an event is delivered: those about installations and `ping` come without asking.
    pub fn hears(&self, event: &str) -> bool {
        self.events.contains(event) || !EVENTS.contains(&event)
    }

    /// Checks a JSON web token as GitHub does: RS256, our key, `iss`, not from the future, at most ten minutes.
    pub fn verify_jwt(&self, token: &str, now: Moment) -> Result<(), Refusal> {
        #[derive(serde::Deserialize)]
        struct Claims {
            iat: i64,
            exp: i64,
            iss: serde_json::Value,
        }
        let mut rules = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::RS256);
        // Times are checked below, against the stand-in's clock and with GitHub's words.
        rules.validate_exp = false;
        rules.required_spec_claims.clear();
        let key = jsonwebtoken::DecodingKey::from_rsa_der(&self.key.public);
        let claims = jsonwebtoken::decode::<Claims>(token, &key, &rules)
            .map_err(|_| Refusal::Unauthorized("A JSON web token could not be decoded"))?
            .claims;
        let now = now.timestamp();
        let ours = match &claims.iss {
            serde_json::Value::String(text) => *text == self.client_id || text.parse() == Ok(self.id),
            number => *number == self.id,
        };
        if !ours {
            return Err(Refusal::Unauthorized("'Issuer' claim ('iss') must be an Integer"));
        }
        if claims.iat > now + 5 {
            return Err(Refusal::Unauthorized("'Issued at' claim ('iat') must be in the past"));
        }
        if claims.exp <= now {
            return Err(Refusal::Unauthorized("'Expiration time' claim ('exp') must be a numeric value in the future"));
        }
        if claims.exp > now + 600 + 5 {
            return Err(Refusal::Unauthorized("'Expiration time' claim ('exp') is too far in the future"));
        }
        Ok(())
    }
}

/// What an installation token allows.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub installation: i64,
    /// None: all repositories of the installation, whatever they are when the token is used.
    pub repositories: Option<BTreeSet<i64>>,
    pub permissions: Permissions,
    pub expires_at: Moment,
}

/// A login in progress: handed out by the authorize page, taken once by `access_token`.
#[derive(Clone, Debug)]
pub(super) struct LoginCode {
    pub account: i64,
    pub redirect_uri: String,
    /// PKCE, method S256.
    pub challenge: Option<String>,
    pub expires_at: Moment,
}

/// Tokens that were handed out.
#[derive(Default)]
pub(super) struct Sessions {
    pub grants: HashMap<String, Grant>,
    pub people: HashMap<String, i64>,
    pub codes: HashMap<String, LoginCode>,
    /// Life of the next installation tokens; an hour unless a test says otherwise.
    pub lifetime: Option<chrono::TimeDelta>,
}

impl Sessions {
    pub fn issue_grant(&mut self, grant: Grant) -> String {
        let token = format!("ghs_{}", &random_text()[..36]);
        self.grants.insert(token.clone(), grant);
        token
    }

    pub fn issue_person(&mut self, account: i64) -> String {
        let token = format!("ghu_{}", &random_text()[..36]);
        self.people.insert(token.clone(), account);
        token
    }
}

/// 64 unguessable hex digits.
pub(super) fn random_text() -> String {
    format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonwebtoken::{Algorithm, EncodingKey, Header};
    use serde_json::{Value, json};

    fn app() -> AppIdentity {
        AppIdentity::generate(7, 8, "treewarden-demo").unwrap()
    }

    fn signed(app: &AppIdentity, claims: &Value) -> String {
        let key = EncodingKey::from_rsa_pem(app.key.private_pem.as_bytes()).unwrap();
        jsonwebtoken::encode(&Header::new(Algorithm::RS256), claims, &key).unwrap()
    }

    #[test]
    fn only_fresh_tokens_of_this_app_pass() {
        let ours = app();
        let other = AppIdentity { key: Arc::new(AppKey::generate().unwrap()), ..app() };
        let now = chrono::Utc::now();
        let t = now.timestamp();
        let claims = |iat: i64, exp: i64, iss: Value| json!({ "iat": iat, "exp": exp, "iss": iss });
        let verdict = |claims: &Value| ours.verify_jwt(&signed(&ours, claims), now);
        assert_eq!(verdict(&claims(t - 60, t + 540, json!(7))), Ok(()));
        assert_eq!(verdict(&claims(t - 60, t + 540, json!("7"))), Ok(()));
        for bad in [
            claims(t - 60, t + 540, json!(9)),
            claims(t + 60, t + 540, json!(7)),
            claims(t - 60, t + 660, json!(7)),
            claims(t - 700, t - 100, json!(7)),
        ] {
            assert!(verdict(&bad).is_err(), "{bad}");
        }
        let foreign = signed(&other, &claims(t - 60, t + 540, json!(7)));
        assert!(ours.verify_jwt(&foreign, now).is_err());
        assert!(ours.verify_jwt("nonsense", now).is_err());
    }
}
