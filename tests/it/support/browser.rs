//! A browser without a screen: it keeps cookies, follows redirects, and sends the forms of the pages it is on.

use reqwest::{Method, StatusCode, Url, header};
use std::collections::BTreeMap;

const ACCEPT: &str = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";
/// Redirects in a row that lead nowhere.
const MOST: usize = 10;

pub struct Browser {
    http: reqwest::Client,
    /// `name=value`, by origin.
    cookies: BTreeMap<String, String>,
}

pub struct Page {
    pub url: Url,
    pub status: StatusCode,
    pub headers: header::HeaderMap,
    pub text: String,
}

/// A form of a page.
pub struct Form {
    pub action: String,
    pub fields: Vec<(String, String)>,
}

impl Browser {
    pub fn new() -> Self {
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { http, cookies: BTreeMap::new() }
    }

    /// Goes to an address, and on to wherever that leads.
    pub async fn open(&mut self, url: &str) -> Page {
        self.go(Method::GET, Url::parse(url).unwrap(), None, None).await
    }

    /// Sends the form of a page that has this text in it, with some of its fields filled in.
    pub async fn press(&mut self, page: &Page, text: &str, filled: &[(&str, &str)]) -> Page {
        let form = page.form(text);
        let others = form.fields.into_iter().filter(|(name, _)| filled.iter().all(|(filled, _)| filled != name));
        let filled = filled.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let fields: Vec<(String, String)> = others.chain(filled).collect();
        let target = page.url.join(&form.action).unwrap();
        self.go(Method::POST, target, Some(page.url.origin().ascii_serialization()), Some(fields)).await
    }

    /// The status of one answer, without going anywhere: several may be asked for at once.
    pub async fn ask(&self, url: &str) -> StatusCode {
        let origin = Url::parse(url).unwrap().origin().ascii_serialization();
        let request = self.http.get(url).header(header::ACCEPT, ACCEPT);
        request.header(header::COOKIE, &self.cookies[&origin]).send().await.unwrap().status()
    }

    async fn go(
        &mut self,
        mut method: Method,
        mut url: Url,
        from: Option<String>,
        mut fields: Option<Vec<(String, String)>>,
    ) -> Page {
        for _ in 0..MOST {
            let origin = url.origin().ascii_serialization();
            let mut request = self.http.request(method, url.clone()).header(header::ACCEPT, ACCEPT);
            if let Some(cookie) = self.cookies.get(&origin) {
                request = request.header(header::COOKIE, cookie);
            }
            if let (Some(from), Some(fields)) = (&from, fields.take()) {
                let site = if *from == origin { "same-origin" } else { "cross-site" };
                request = request.header(header::ORIGIN, from).header("Sec-Fetch-Site", site).form(&fields);
            }
            let answer = request.send().await.unwrap();
            if let Some(cookie) = answer.headers().get(header::SET_COOKIE) {
                let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
                self.cookies.insert(origin, cookie.to_owned());
            }
            let (status, headers) = (answer.status(), answer.headers().clone());
            match headers.get(header::LOCATION).filter(|_| status.is_redirection()) {
                Some(location) => (method, url) = (Method::GET, url.join(location.to_str().unwrap()).unwrap()),
                None => return Page { url, status, headers, text: answer.text().await.unwrap() },
            }
        }
        panic!("{url} leads in circles");
    }
}

impl Page {
    /// The form that has this text in it.
    pub fn form(&self, text: &str) -> Form {
        let mut forms = self.text.split("<form ").skip(1).map(|rest| rest.split("</form>").next().unwrap());
        let form = forms.find(|form| form.contains(text));
        let form = form.unwrap_or_else(|| panic!("no form with {text:?} on {}: {}", self.url, self.text));
        let inputs = form.split("<input ").skip(1).map(|rest| rest.split('>').next().unwrap());
        let inputs = inputs.filter(|input| !input.contains("checkbox") || input.contains(" checked"));
        let fields =
            inputs.filter_map(|input| Some((attribute(input, "name")?, attribute(input, "value").unwrap_or_default())));
        Form { action: attribute(form, "action").unwrap(), fields: fields.collect() }
    }
}

impl Form {
    pub fn field(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no field {name}")).1
    }
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let value = tag.split(&format!("{name}=\"")).nth(1)?.split('"').next()?;
    Some(plain(value))
}

/// Without the escapes of a page.
fn plain(text: &str) -> String {
    [("&#39;", "'"), ("&#34;", "\""), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")]
        .into_iter()
        .fold(text.to_owned(), |text, (coded, plain)| text.replace(coded, plain))
}
