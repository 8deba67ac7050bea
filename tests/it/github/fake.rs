//! A GitHub of a few lines for these tests: it mints tokens, plays back answers and remembers every request.

use aws_lc_rs::{encoding::AsDer, rsa};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode},
    response::Response,
};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};
use treewarden::github::{Github, GithubSettings};

/// A key that opens nothing.
static KEY: LazyLock<String> = LazyLock::new(|| {
    let pair = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).unwrap();
    let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let text = STANDARD.encode(der.as_ref());
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
});

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    /// `GET /api/v3/repos/…?…`
    pub line: String,
    pub auth: String,
    pub body: Value,
}

pub enum Answer {
    Json(u16, Value),
    Full(u16, Vec<(&'static str, String)>, String),
    /// Never comes.
    Silence,
}

struct Rule {
    line: String,
    answers: VecDeque<Answer>,
}

type Otherwise = Box<dyn Fn(&Seen) -> Option<Answer> + Send>;

#[derive(Default)]
struct Heard {
    seen: Vec<Seen>,
    rules: Vec<Rule>,
    otherwise: Option<Otherwise>,
    minted: usize,
    token_life: i64,
    ahead: i64,
}

#[derive(Clone)]
pub struct Fake {
    heard: Arc<Mutex<Heard>>,
    /// `http://127.0.0.1:<port>`
    pub url: String,
}

impl Fake {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let fake = Self { heard: Arc::default(), url };
        fake.heard.lock().unwrap().token_life = 3600;
        let router = Router::new().fallback(answer).with_state(fake.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake
    }

    /// A client of this server, laid out as an Enterprise Server.
    pub fn client(&self) -> Github {
        self.client_with_timeout(None)
    }

    pub fn api_url(&self) -> String {
        format!("{}/api/v3", self.url)
    }

    pub fn client_with_timeout(&self, timeout: Option<Duration>) -> Github {
        let settings = GithubSettings {
            app_id: 7,
            private_key_pem: KEY.as_str().into(),
            api_url: self.api_url(),
            web_url: self.url.clone(),
            timeout,
        };
        Github::new(&settings).unwrap()
    }

    /// Answers to the requests whose first line starts with `line` (method and path below `/api`), one after the other.
    /// Tokens are given out where nothing else was asked for; whatever else nobody asked about is 404.
    pub fn on(&self, line: &str, answers: impl IntoIterator<Item = Answer>) {
        let rule = Rule { line: line.to_owned(), answers: answers.into_iter().collect() };
        self.heard.lock().unwrap().rules.push(rule);
    }

    /// What is answered where no rule says anything.
    pub fn otherwise(&self, answer: impl Fn(&Seen) -> Option<Answer> + Send + 'static) {
        self.heard.lock().unwrap().otherwise = Some(Box::new(answer));
    }

    pub fn let_tokens_live(&self, seconds: i64) {
        self.heard.lock().unwrap().token_life = seconds;
    }

    /// Its clock, which is ahead of everybody else's by so many seconds, is from now on what the App's requests go by.
    pub fn set_clock_ahead(&self, seconds: i64) {
        self.heard.lock().unwrap().ahead = seconds;
    }

    /// In seconds since 1970.
    fn now(&self) -> i64 {
        chrono::Utc::now().timestamp() + self.heard.lock().unwrap().ahead
    }

    pub fn minted(&self) -> usize {
        self.heard.lock().unwrap().minted
    }

    /// The requests so far whose first line starts with `line`.
    pub fn seen(&self, line: &str) -> Vec<Seen> {
        let heard = self.heard.lock().unwrap();
        heard.seen.iter().filter(|seen| seen.line.starts_with(line)).cloned().collect()
    }

    fn next(&self, seen: Seen) -> Answer {
        let now = self.now();
        let mut heard = self.heard.lock().unwrap();
        let line = seen.line.clone();
        let claims = claims(&seen.auth);
        heard.seen.push(seen.clone());
        let is_good = |claims: &Value| {
            let (from, to) = (claims["iat"].as_i64().unwrap(), claims["exp"].as_i64().unwrap());
            from <= now && now < to && to <= now + 600
        };
        if claims.is_some_and(|claims| !is_good(&claims)) {
            return Answer::Json(401, json!({"message": "'Issued at' claim ('iat') must be in the past"}));
        }
        let rule = heard.rules.iter_mut().find(|rule| line.starts_with(&rule.line) && !rule.answers.is_empty());
        let answer = rule.and_then(|rule| rule.answers.pop_front());
        let answer = answer.or_else(|| heard.otherwise.as_ref().and_then(|otherwise| otherwise(&seen)));
        if answer.is_none() && line.contains("/access_tokens") {
            heard.minted += 1;
            let ends = chrono::Utc::now() + chrono::TimeDelta::seconds(heard.token_life + heard.ahead);
            let token = format!("token-{}", heard.minted);
            return Answer::Json(201, json!({"token": token, "expires_at": ends.to_rfc3339()}));
        }
        answer.unwrap_or_else(|| Answer::Json(404, json!({"message": "Not Found"})))
    }
}

/// What a request says that the App itself signed.
pub fn claims(auth: &str) -> Option<Value> {
    let payload = auth.strip_prefix("Bearer ey").and_then(|jwt| jwt.split('.').nth(1))?;
    Some(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap())
}

async fn answer(State(fake): State<Fake>, method: Method, headers: HeaderMap, request: Request) -> Response {
    let line = format!("{method} {}", request.uri());
    let auth = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let now = fake.now();
    let (status, headers, text) = match fake.next(Seen { line, auth, body }) {
        Answer::Json(status, body) => (status, Vec::new(), body.to_string()),
        Answer::Full(status, headers, text) => (status, headers, text),
        Answer::Silence => std::future::pending().await,
    };
    let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
    for (name, value) in headers {
        response = response.header(name, value);
    }
    let mut response = response.body(Body::from(text)).unwrap();
    let date = chrono::DateTime::from_timestamp(now, 0).unwrap().format("%a, %d %b %Y %H:%M:%S GMT");
    response.headers_mut().entry("date").or_insert(date.to_string().parse().unwrap());
    response
}
