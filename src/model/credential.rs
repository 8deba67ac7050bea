//! A secret on its way from GitHub to one git process. Never stored, never shown.

use secrecy::SecretString;

/// Lets git read or write on one host.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Host, with its port when it is not the default one; the token is handed out for no other.
    pub host: String,
    pub token: SecretString,
}
