//! Who may see the panel, and the metrics. Until people log in with GitHub it is reachable on this machine only, with a session that a
//! one-time link opened. Metrics need no session: whoever works on this machine may read them.

use super::{WebState, error::WebError, session};
use crate::model::is_loopback_host;
use axum::{
    extract::{ConnectInfo, FromRequestParts, Request, State},
    http::{HeaderMap, Method, Uri, header, request::Parts, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tower_sessions::Session;

/// What proxies add to a request they pass on.
const PROXY_HEADERS: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// Who is signed in; the name actions are recorded under. Only behind [`signed_in`].
#[derive(Clone, Debug)]
pub struct Actor(pub String);

impl<S: Sync> FromRequestParts<S> for Actor {
    type Rejection = WebError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, WebError> {
        parts.extensions.get::<Actor>().cloned().ok_or(WebError::NotSignedIn)
    }
}

/// Lets pass what comes straight from this machine and asks for a name of this machine or of the service: a request of
/// another machine, also through a proxy here, is refused, and so is a page that points its own name here (DNS rebinding).
pub async fn direct_and_local(State(state): State<WebState>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let direct = !PROXY_HEADERS.iter().any(|name| request.headers().contains_key(*name));
    if !direct || !peer.is_some_and(|ip| ip.to_canonical().is_loopback()) {
        return WebError::Elsewhere.into_response();
    }
    if !is_known_host(request.headers(), request.uri(), &state.inner.public_url) {
        return WebError::ForeignHost.into_response();
    }
    next.run(request).await
}

/// Lets only signed-in browsers pass; others are led to the login page.
pub async fn signed_in(
    State(state): State<WebState>,
    session: Session,
    mut request: Request,
    next: Next,
) -> Result<Response, WebError> {
    match session::who(&session, state.now()).await? {
        Some(who) => {
            request.extensions_mut().insert(Actor(who));
            Ok(next.run(request).await)
        }
        None if request.method() == Method::GET && super::error::is_browser(request.headers()) => {
            Ok(Redirect::to("/login").into_response())
        }
        None => Err(WebError::NotSignedIn),
    }
}

/// Where a browser on this machine reaches a server that listens on `bound`.
pub fn loopback_url(bound: SocketAddr) -> String {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, bound.port()))
}

/// Whether an address is plain HTTP on this machine.
pub fn is_plain_loopback(url: &str) -> bool {
    let authority = url.strip_prefix("http://").and_then(|rest| rest.parse::<Authority>().ok());
    authority.is_some_and(|authority| is_loopback_host(authority.host()))
}

/// Whether a request asks for this machine by a name of its own, so that it came by plain HTTP: certificates are for the
/// service's public name.
pub fn names_this_machine(headers: &HeaderMap, uri: &Uri) -> bool {
    named(headers, uri).is_some_and(|named| is_loopback_host(named.host()))
}

/// Where the browser that asks reaches the panel, without a trailing slash. Behind [`direct_and_local`], which knows the name.
pub fn browser_url(headers: &HeaderMap, uri: &Uri, public_url: &str) -> String {
    let named = named(headers, uri).filter(|named| is_loopback_host(named.host()));
    let port = |named: &Authority| named.port().map(|port| format!(":{port}")).unwrap_or_default();
    named.map_or_else(|| public_url.to_owned(), |named| format!("http://{}{}", named.host(), port(&named)))
}

fn is_known_host(headers: &HeaderMap, uri: &Uri, public_url: &str) -> bool {
    let known = public_url.split_once("://").map(|(_, rest)| rest);
    named(headers, uri).is_some_and(|named| known == Some(named.as_str()) || is_loopback_host(named.host()))
}

/// Whom a request asks for.
fn named(headers: &HeaderMap, uri: &Uri) -> Option<Authority> {
    let named = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    // HTTP/2 and proxies put the name into the address.
    uri.authority().map(Authority::as_str).or(named).and_then(|host| host.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_own_names_are_known_hosts() {
        let known = |host: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).unwrap())]);
            is_known_host(&headers, &Uri::from_static("/"), "https://tw.example.com")
        };
        for host in ["tw.example.com", "localhost", "localhost:3000", "127.0.0.1:3000", "[::1]:3000", "[::1]"] {
            assert!(known(host), "{host}");
        }
        for host in ["evil.test", "tw.example.com.evil.test", "localhost.evil.test", "127.0.0.1.evil.test", "10.0.0.1"]
        {
            assert!(!known(host), "{host}");
        }
        assert!(!is_known_host(&HeaderMap::new(), &Uri::from_static("/"), "https://tw.example.com"));
    }

    #[test]
    fn the_public_name_is_none_of_this_machine() {
        let local = |host: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).unwrap())]);
            names_this_machine(&headers, &Uri::from_static("/"))
        };
        for host in ["localhost", "LOCALHOST:3000", "127.0.0.1:3000", "[::1]:3000"] {
            assert!(local(host), "{host}");
        }
        for host in ["tw.example.com", "localhost.evil.test", "localhost@tw.example.com", "10.0.0.1:3000"] {
            assert!(!local(host), "{host}");
        }
        assert!(!names_this_machine(&HeaderMap::new(), &Uri::from_static("/")));
        let both = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("localhost"))]);
        assert!(!names_this_machine(&both, &Uri::from_static("https://tw.example.com/login")));
    }

    #[test]
    fn a_browser_is_led_back_to_where_it_was() {
        let led = |host: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).unwrap())]);
            browser_url(&headers, &Uri::from_static("/setup"), "https://tw.example.com")
        };
        for (host, url) in [
            ("localhost:3000", "http://localhost:3000"),
            ("127.0.0.1:4000", "http://127.0.0.1:4000"),
            ("[::1]:3000", "http://[::1]:3000"),
            ("ann@localhost", "http://localhost"),
            ("tw.example.com", "https://tw.example.com"),
            ("evil.test", "https://tw.example.com"),
        ] {
            assert_eq!(led(host), url);
        }
    }

    #[test]
    fn plain_http_is_for_this_machine() {
        for url in ["http://127.0.0.1:3000", "http://localhost", "http://[::1]:3000"] {
            assert!(is_plain_loopback(url), "{url}");
        }
        for url in ["https://127.0.0.1:3000", "http://192.168.1.5:3000", "http://tw.example.com"] {
            assert!(!is_plain_loopback(url), "{url}");
        }
    }

    #[test]
    fn everywhere_includes_this_machine() {
        let url = |bound: &str| loopback_url(bound.parse().unwrap());
        assert_eq!(url("0.0.0.0:3000"), "http://127.0.0.1:3000");
        assert_eq!(url("[::]:3000"), "http://[::1]:3000");
        assert_eq!(url("127.0.0.1:80"), "http://127.0.0.1:80");
    }
}
