//! The session cookie. A session holds who signed in, when that was last used, and one message to show; nothing else.

use super::{WebState, error::WebError, guard};
use crate::model::Timestamp;
use crate::store::WebSessions;
use std::time::Duration;
use tower_sessions::{Expiry, Session, SessionManagerLayer, cookie::SameSite};

/// A session ends after this long without a request.
const IDLE: time::Duration = time::Duration::hours(8);
/// Use is written down this often at most, so that looking at pages does not write to the database each time.
const NOTED_EVERY: Duration = Duration::from_secs(300);
const SIGNED_IN: &str = "signed_in";
const LAST_USE: &str = "last_use";

pub fn layer(state: &WebState) -> SessionManagerLayer<WebSessions> {
    // Browsers do not reliably keep `Secure` cookies of plain HTTP, which only a panel on this machine may use.
    let secure = !guard::is_plain_loopback(&state.inner.public_url);
    SessionManagerLayer::new(WebSessions::new(state.inner.store.clone()))
        .with_name(if secure { "__Host-treewarden" } else { "treewarden" })
        .with_secure(secure)
        .with_http_only(true)
        .with_same_site(SameSite::Lax)
        .with_expiry(Expiry::OnInactivity(IDLE))
}

/// Signs somebody in, under a new session id: one that was known before is worth nothing afterwards.
pub async fn open(session: &Session, who: &str, now: Timestamp) -> Result<(), WebError> {
    session.cycle_id().await?;
    session.insert(SIGNED_IN, who).await?;
    session.insert(LAST_USE, now).await?;
    Ok(())
}

/// Who is signed in, if anybody; counts as use.
pub async fn who(session: &Session, now: Timestamp) -> Result<Option<String>, WebError> {
    let who = session.get::<String>(SIGNED_IN).await?;
    if who.is_some() {
        let last = session.get::<Timestamp>(LAST_USE).await?;
        if last.is_none_or(|last| now.since(last) >= NOTED_EVERY) {
            // Any change moves the session's end.
            session.insert(LAST_USE, now).await?;
        }
    }
    Ok(who)
}
