//! Requests to the REST API, held against GitHub's OpenAPI description: path, query and body. Of OpenAPI 3.0 it knows what
//! GitHub's requests are described with, and objects to every other word of a schema rather than pass over it.

use super::Asked;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::collections::BTreeMap;

/// Words of a schema that say nothing about a value, or nothing that GitHub would refuse it for.
const NOTES: &[&str] = &["default", "deprecated", "description", "example", "examples", "format", "nullable", "title"];

#[derive(Deserialize)]
pub struct Description {
    /// By template and method.
    paths: BTreeMap<String, BTreeMap<String, Operation>>,
    /// By kind and name.
    components: BTreeMap<String, BTreeMap<String, Box<RawValue>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Operation {
    #[serde(default)]
    parameters: Vec<Value>,
    request_body: Option<Value>,
    responses: Box<RawValue>,
}

/// An operation whose template a path fits, and what stands in the template's places.
struct Found<'a> {
    operation: &'a Operation,
    parameters: Vec<Value>,
    places: Vec<(&'a str, &'a str)>,
}

impl Found<'_> {
    fn parameter(&self, place: &str, name: &str) -> Option<&Value> {
        self.parameters.iter().find(|parameter| parameter["in"] == place && parameter["name"] == name)
    }
}

impl Description {
    pub fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap()
    }

    /// What GitHub does not describe about a request.
    pub fn objection(&self, asked: &Asked<'_>) -> Option<String> {
        let line = format!("{} {}?{} {:?}", asked.method, asked.path, asked.query.unwrap_or_default(), asked.body);
        let Some(found) = self.find(asked.method, asked.path) else { return Some(format!("{line}: not described")) };
        let mut wrong = Vec::new();
        for (name, text) in &found.places {
            match found.parameter("path", name) {
                Some(parameter) => self.check_text(&parameter["schema"], text, name, &mut wrong),
                None => wrong.push(format!("{{{name}}} is not described")),
            }
        }
        self.check_query(&found, asked.query.unwrap_or_default(), &mut wrong);
        self.check_body(found.operation.request_body.as_ref(), asked.body, &mut wrong);
        (!wrong.is_empty()).then(|| format!("{line}: {}", wrong.join("; ")))
    }

    /// Status and body of the success that GitHub gives as an example of an answer.
    pub fn example(&self, method: &str, path: &str) -> Option<(u16, Value)> {
        let found = self.find(method, path)?;
        let responses: BTreeMap<String, Value> = serde_json::from_str(found.operation.responses.get()).unwrap();
        let (status, response) = responses.into_iter().rfind(|(status, _)| status.starts_with('2'))?;
        let response = self.resolved(&response);
        let examples = response["content"]["application/json"]["examples"].as_object();
        let first = examples.and_then(|examples| examples.get("default").or(examples.values().next()));
        let body = first.map_or_else(|| serde_json::json!({}), |example| self.value_of(example));
        Some((status.parse().ok()?, body))
    }

    fn value_of(&self, example: &Value) -> Value {
        let value = self.resolved(example)["value"].clone();
        if value.get("$ref").is_some() { self.value_of(&value) } else { value }
    }

    /// The operation with the fewest places among those whose template the path fits; one whose last place spreads over
    /// several segments only where no other does.
    fn find<'a>(&'a self, method: &str, path: &'a str) -> Option<Found<'a>> {
        let fitting = self.paths.iter().filter_map(|(template, operations)| {
            let operation = operations.get(&method.to_ascii_lowercase())?;
            let (places, spreads) = fit(template, path)?;
            let parameters = operation.parameters.iter().map(|parameter| self.resolved(parameter)).collect();
            let found = Found { operation, parameters, places };
            let last = found.places.last().and_then(|(name, _)| found.parameter("path", name));
            (!spreads || last.is_some_and(|last| last["x-multi-segment"] == true)).then_some((spreads, found))
        });
        fitting.min_by_key(|(spreads, found)| (*spreads, found.places.len())).map(|(_, found)| found)
    }

    fn check_query(&self, found: &Found<'_>, query: &str, wrong: &mut Vec<String>) {
        let url = reqwest::Url::parse(&format!("http://127.0.0.1/?{query}")).unwrap();
        let given: BTreeMap<_, _> = url.query_pairs().into_owned().collect();
        for (name, text) in &given {
            match found.parameter("query", name) {
                Some(parameter) => self.check_text(&parameter["schema"], text, name, wrong),
                None => wrong.push(format!("?{name}= is not described")),
            }
        }
        let needed = found.parameters.iter().filter(|one| one["in"] == "query" && one["required"] == true);
        let missing = needed.filter(|one| !given.contains_key(one["name"].as_str().unwrap_or_default()));
        wrong.extend(missing.map(|one| format!("?{}= is missing", one["name"])));
    }

    fn check_body(&self, described: Option<&Value>, body: Option<&Value>, wrong: &mut Vec<String>) {
        match (described.map(|described| self.resolved(described)), body.filter(|body| !body.is_null())) {
            (Some(described), Some(body)) => match described["content"].get("application/json") {
                Some(json) => self.check(&json["schema"], body, "body", wrong),
                None => wrong.push("a body in JSON is not described".to_owned()),
            },
            (Some(described), None) if described["required"] == true => wrong.push("the body is missing".to_owned()),
            (None, Some(_)) => wrong.push("a body is not described".to_owned()),
            (Some(_) | None, None) => {}
        }
    }

    /// A value of an address.
    fn check_text(&self, schema: &Value, text: &str, at: &str, wrong: &mut Vec<String>) {
        let plain = || Value::from(text);
        let value = match self.resolved(schema)["type"].as_str() {
            Some("integer" | "number" | "boolean") => serde_json::from_str(text).unwrap_or_else(|_| plain()),
            _ => plain(),
        };
        self.check(schema, &value, at, wrong);
    }

    /// Objects hold nothing that their schema does not name, unless it says that they may.
    fn check(&self, schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
        let schema = self.resolved(schema);
        let Some(words) = schema.as_object() else { return wrong.push(format!("{at} has no schema")) };
        if value.is_null() && schema["nullable"] == true {
            return;
        }
        let short = value.as_array().map(Vec::len).or(value.as_str().map(|text| text.chars().count()));
        for (word, said) in words {
            let limit = said.as_u64().map(|limit| usize::try_from(limit).unwrap());
            let holds = match word.as_str() {
                "type" => is_a(value, said.as_str().unwrap_or_default()),
                "enum" => said.as_array().is_some_and(|allowed| allowed.contains(value)),
                "maxLength" | "maxItems" => short.is_none_or(|length| Some(length) <= limit),
                "minLength" | "minItems" => short.is_none_or(|length| Some(length) >= limit),
                "required" => said.as_array().is_some_and(|names| {
                    names.iter().all(|name| value.get(name.as_str().unwrap_or_default()).is_some())
                }),
                "oneOf" | "anyOf" => said.as_array().is_some_and(|several| {
                    several.iter().any(|one| {
                        let mut other = Vec::new();
                        self.check(one, value, at, &mut other);
                        other.is_empty()
                    })
                }),
                "items" => {
                    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(said, item, &format!("{at}[{number}]"), wrong);
                    }
                    true
                }
                "properties" => {
                    self.check_members(said, schema.get("additionalProperties"), value, at, wrong);
                    true
                }
                "additionalProperties" => true,
                note => NOTES.contains(&note),
            };
            if !holds {
                wrong.push(format!("{at} is not as {word} says: {said}"));
            }
        }
    }

    fn check_members(&self, named: &Value, others: Option<&Value>, value: &Value, at: &str, wrong: &mut Vec<String>) {
        for (name, member) in value.as_object().into_iter().flatten() {
            let place = format!("{at}.{name}");
            match (named.get(name), others) {
                (Some(schema), _) => self.check(schema, member, &place, wrong),
                (None, Some(Value::Bool(true))) => {}
                (None, Some(schema @ Value::Object(_))) => self.check(schema, member, &place, wrong),
                (None, _) => wrong.push(format!("{place} is not described")),
            }
        }
    }

    /// What a `$ref` stands for; anything else as it is.
    fn resolved(&self, value: &Value) -> Value {
        let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return value.clone() };
        let place = reference.strip_prefix("#/components/").and_then(|place| place.split_once('/'));
        let (kind, name) = place.unwrap_or_else(|| panic!("{reference}"));
        self.resolved(&serde_json::from_str(self.components[kind][name].get()).unwrap())
    }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    }
}

/// What stands in the places of a template, and whether the last one spreads over several segments of the path.
fn fit<'a>(template: &'a str, path: &'a str) -> Option<(Vec<(&'a str, &'a str)>, bool)> {
    let (mut places, mut rest) = (Vec::new(), Some(path));
    let mut pieces = template.split('/').peekable();
    while let Some(piece) = pieces.next() {
        let here = rest?;
        let (segment, after) = here.split_once('/').map_or((here, None), |(segment, after)| (segment, Some(after)));
        rest = after;
        match piece.strip_prefix('{').and_then(|piece| piece.strip_suffix('}')) {
            Some(_) if segment.is_empty() => return None,
            Some(name) if pieces.peek().is_none() && after.is_some() => {
                places.push((name, here));
                return Some((places, true));
            }
            Some(name) => places.push((name, segment)),
            None if piece != segment => return None,
            None => {}
        }
    }
    rest.is_none().then_some((places, false))
}
