//! The signature of webhook deliveries: HMAC-SHA256 over the raw body, `X-Hub-Signature-256: sha256=<64 hex digits>`.
//! Source: GitHub's "Validating webhook deliveries".

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// A body that is GitHub's beyond doubt: its signature was checked, or GitHub itself was asked for it. Nothing else makes one,
/// so a handler that takes it cannot forget the check.
#[derive(Clone, Debug)]
pub struct Verified<B>(B);

impl<B> Verified<B> {
    /// Of an answer of GitHub's to the App, over the one door that knows where GitHub is.
    pub(super) fn fetched(body: B) -> Self {
        Self(body)
    }

    pub fn into_inner(self) -> B {
        self.0
    }
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Verified<B> {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSignature {
    #[error("the X-Hub-Signature-256 header is missing")]
    Missing,
    #[error("the X-Hub-Signature-256 header is not sha256= and 64 hex digits")]
    Malformed,
    #[error("the signature does not fit the body and the configured secret")]
    Wrong,
}

/// What a header says the signature is; known before the body is, and worth nothing until [`verify`].
#[derive(Clone, Copy, Debug)]
pub struct Claim([u8; 32]);

impl Claim {
    pub fn parse(header: Option<&str>) -> Result<Self, BadSignature> {
        let digits = header.ok_or(BadSignature::Missing)?.strip_prefix("sha256=").ok_or(BadSignature::Malformed)?;
        let bytes = hex::decode(digits).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(BadSignature::Malformed)
    }
}

/// Checks a claim against `body` in constant time. An empty secret accepts nothing: anybody could sign with it.
pub fn verify<B: AsRef<[u8]>>(secret: &SecretString, claim: Claim, body: B) -> Result<Verified<B>, BadSignature> {
    if secret.expose_secret().is_empty() {
        return Err(BadSignature::Wrong);
    }
    mac(secret, body.as_ref()).verify_slice(&claim.0).map_err(|_| BadSignature::Wrong)?;
    Ok(Verified(body))
}

/// The header value for `body`.
pub fn sign(secret: &SecretString, body: &[u8]) -> String {
    format!("sha256={}", hex::encode(mac(secret, body).finalize().into_bytes()))
}

fn mac(secret: &SecretString, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes())
        .unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
    mac.update(body);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_signed_bytes_are_accepted() {
        let secret = SecretString::from("s3cret");
        let body = b"{\"b\":1.0, \"a\":\"\\u00e9 \\/\"}\n";
        let header = sign(&secret, body);
        let claim = Claim::parse(Some(&header)).unwrap();
        assert!(verify(&secret, claim, &body[..]).is_ok());
        let upper = Claim::parse(Some(&header.to_uppercase().replace("SHA256", "sha256"))).unwrap();
        assert!(verify(&secret, upper, &body[..]).is_ok());
        for index in 0..body.len() {
            let mut changed = body.to_vec();
            changed[index] ^= 1;
            assert_eq!(verify(&secret, claim, changed).unwrap_err(), BadSignature::Wrong);
        }
    }

    #[test]
    fn missing_and_malformed_headers_are_told_apart() {
        let check = |header: Option<&str>| Claim::parse(header).unwrap_err();
        assert_eq!(check(None), BadSignature::Missing);
        for header in ["", "sha256=", "sha1=0000000000000000000000000000000000000000", "sha256=zz", "sha256=abc"] {
            assert_eq!(check(Some(header)), BadSignature::Malformed);
        }
    }

    #[test]
    fn an_empty_secret_accepts_nothing() {
        let secret = SecretString::from("");
        let claim = Claim::parse(Some(&sign(&secret, b"x"))).unwrap();
        assert_eq!(verify(&secret, claim, &b"x"[..]).unwrap_err(), BadSignature::Wrong);
    }

    /// The example of GitHub's documentation.
    #[test]
    fn the_documented_example_fits() {
        let secret = SecretString::from("It's a Secret to Everybody");
        assert_eq!(
            sign(&secret, b"Hello, World!"),
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
        );
    }
}
