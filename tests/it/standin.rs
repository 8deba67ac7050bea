//! The stand-in for GitHub, seen from outside: over HTTP, with the real git program, and by its webhooks.

mod api;
mod git;
mod hooks;
mod pages;

use serde_json::{Value, json};
use std::{path::Path, process::Output};
use tempfile::TempDir;
use treewarden::demo::github::{Standin, StandinOptions};

/// A stand-in with one repository `octo/hello` (a README on `main`), a directory for its files, and a client.
struct Stage {
    standin: Standin,
    dir: TempDir,
    http: reqwest::Client,
}

const REPO: &str = "octo/hello";

impl Stage {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let standin = Standin::start(StandinOptions::new(dir.path().join("github"))).await.unwrap();
        standin.create_repository(REPO, &[("README.md", "# Hello\n")]).await.unwrap();
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { standin, dir, http }
    }

    /// A JSON web token of the App.
    fn jwt(&self) -> String {
        use secrecy::ExposeSecret;
        let pem = self.standin.private_key_pem();
        let key = jsonwebtoken::EncodingKey::from_rsa_pem(pem.expose_secret().as_bytes()).unwrap();
        let now = chrono::Utc::now().timestamp();
        let claims = json!({ "iat": now - 60, "exp": now + 540, "iss": self.standin.app_id() });
        jsonwebtoken::encode(&jsonwebtoken::Header::new(jsonwebtoken::Algorithm::RS256), &claims, &key).unwrap()
    }

    /// An installation token, by the API.
    async fn token(&self, scope: Value) -> String {
        let installation = self.standin.installation_id(REPO).unwrap();
        let path = format!("/app/installations/{installation}/access_tokens");
        let (status, body) = self.call("POST", &path, &self.jwt(), Some(scope)).await;
        assert_eq!(status, 201, "{body}");
        body["token"].as_str().unwrap().to_owned()
    }

    /// Status and JSON body (null when it is none).
    async fn call(&self, method: &str, path: &str, token: &str, body: Option<Value>) -> (u16, Value) {
        let response = self.send(method, path, token, body).await;
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
    }

    async fn send(&self, method: &str, path: &str, token: &str, body: Option<Value>) -> reqwest::Response {
        let url = if path == "/graphql" {
            format!("{}/api/graphql", self.standin.url())
        } else {
            format!("{}{path}", self.standin.api_url())
        };
        let mut request = self.http.request(method.parse().unwrap(), url).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        request.send().await.unwrap()
    }

    /// Runs git in a directory below the stage's, with `token` as the password.
    async fn git(&self, directory: &Path, token: &str, arguments: &[&str]) -> Output {
        use base64::Engine;
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{token}"));
        tokio::process::Command::new("git")
            .current_dir(directory)
            .args(["-c", &format!("http.extraHeader=Authorization: Basic {basic}")])
            .args(["-c", "user.name=Ann", "-c", "user.email=ann@localhost"])
            .args(arguments)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .env_remove("GIT_DIR")
            .env_remove("GIT_INDEX_FILE")
            .output()
            .await
            .unwrap()
    }

    /// A clone of the repository, made over HTTP.
    async fn clone(&self, token: &str) -> std::path::PathBuf {
        let output = self.git(self.dir.path(), token, &["clone", "-q", &self.standin.clone_url(REPO), "clone"]).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        self.dir.path().join("clone")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}
