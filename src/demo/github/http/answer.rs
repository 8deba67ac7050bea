//! How answers look: refusals as GitHub words them, pages of lists with `Link` headers, bodies that are read leniently.

use super::Asked;
use crate::demo::github::refusal::Refusal;
use crate::model::percent_encoded;
use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, message, errors) = match self {
            Refusal::Unauthorized(message) => (StatusCode::UNAUTHORIZED, message.to_owned(), None),
            Refusal::Forbidden(message) => (StatusCode::FORBIDDEN, message, None),
            Refusal::NotFound(_) => (StatusCode::NOT_FOUND, "Not Found".to_owned(), None),
            Refusal::NotAllowed(message) => (StatusCode::METHOD_NOT_ALLOWED, message, None),
            Refusal::Conflict(message) => (StatusCode::CONFLICT, message, None),
            Refusal::Invalid(message) => {
                let errors = json!([{ "code": "custom", "message": message }]);
                (StatusCode::UNPROCESSABLE_ENTITY, "Validation Failed".to_owned(), Some(errors))
            }
            Refusal::Git(message) => (StatusCode::INTERNAL_SERVER_ERROR, message, None),
        };
        let mut body = json!({
            "message": message,
            "documentation_url": "https://docs.github.com/rest",
            "status": status.as_str(),
        });
        if let Some(errors) = errors {
            body["errors"] = errors;
        }
        (status, Json(body)).into_response()
    }
}

pub(super) type Answer = Result<Response, Refusal>;

pub(super) fn ok(body: Value) -> Answer {
    Ok(Json(body).into_response())
}

pub(super) fn created(body: Value) -> Answer {
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

pub(super) fn no_content() -> Answer {
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A JSON body, whatever its content type says; an empty one counts as `{}`.
pub(super) struct Input<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Input<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let bytes = Bytes::from_request(request, state).await.map_err(IntoResponse::into_response)?;
        let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        match serde_json::from_slice::<Value>(bytes).map(serde_json::from_value) {
            Ok(Ok(body)) => Ok(Self(body)),
            Ok(Err(error)) => Err(Refusal::invalid(error.to_string()).into_response()),
            Err(_) => {
                Err((StatusCode::BAD_REQUEST, Json(json!({ "message": "Problems parsing JSON" }))).into_response())
            }
        }
    }
}

/// Which part of a list is wanted, and where the list is, for links to its other parts.
pub(super) struct Page {
    number: usize,
    size: usize,
    path: String,
    /// The rest of the query, which links repeat.
    query: Vec<(String, String)>,
}

impl<S: Send + Sync> FromRequestParts<S> for Page {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let uri = parts.extensions.get::<Asked>().map_or_else(|| parts.uri.clone(), |asked| asked.0.clone());
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri);
        let pairs = pairs.map_err(IntoResponse::into_response)?.0;
        let number_of = |name: &str| pairs.iter().find(|pair| pair.0 == name).and_then(|pair| pair.1.parse().ok());
        Ok(Self {
            number: number_of("page").unwrap_or(1).max(1),
            size: number_of("per_page").unwrap_or(30).clamp(1, 100),
            path: uri.path().to_owned(),
            query: pairs.into_iter().filter(|pair| pair.0 != "page" && pair.0 != "per_page").collect(),
        })
    }
}

impl Page {
    /// A value of the query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|pair| pair.0 == name).map(|pair| pair.1.as_str())
    }

    /// This part of a list; `base` is the server's address.
    pub fn answer(&self, base: &str, items: Vec<Value>) -> Answer {
        let (links, items) = self.cut(base, items);
        let mut response = Json(items).into_response();
        if let Some(links) = links.and_then(|links| HeaderValue::from_str(&links).ok()) {
            response.headers_mut().insert(header::LINK, links);
        }
        Ok(response)
    }

    /// The same for lists inside an object, under `key`, with the total beside it.
    pub fn answer_in(&self, base: &str, key: &str, items: Vec<Value>) -> Answer {
        let total = items.len();
        let (links, items) = self.cut(base, items);
        let mut response = Json(json!({ "total_count": total, key: items })).into_response();
        if let Some(links) = links.and_then(|links| HeaderValue::from_str(&links).ok()) {
            response.headers_mut().insert(header::LINK, links);
        }
        Ok(response)
    }

    fn cut(&self, base: &str, items: Vec<Value>) -> (Option<String>, Vec<Value>) {
        let last = items.len().div_ceil(self.size).max(1);
        let mut links = Vec::new();
        if self.number < last {
            links.push(self.link(base, self.number + 1, "next"));
            links.push(self.link(base, last, "last"));
        }
        if self.number > 1 {
            links.push(self.link(base, 1, "first"));
            links.push(self.link(base, self.number - 1, "prev"));
        }
        let part = items.into_iter().skip((self.number - 1).saturating_mul(self.size)).take(self.size).collect();
        ((!links.is_empty()).then(|| links.join(", ")), part)
    }

    fn link(&self, base: &str, number: usize, relation: &str) -> String {
        let mut query = String::new();
        for (name, value) in &self.query {
            query += &format!("{}={}&", percent_encoded(name), percent_encoded(value));
        }
        format!("<{base}{}?{query}per_page={}&page={number}>; rel=\"{relation}\"", self.path, self.size)
    }
}
