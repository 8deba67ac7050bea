//! Questions in GraphQL, held against GitHub's schema.

use apollo_compiler::{ExecutableDocument, request::coerce_variable_values, response::JsonMap, validation::Valid};
use serde_json::Value;

pub struct Schema(Valid<apollo_compiler::Schema>);

impl Schema {
    pub fn parse(text: String) -> Self {
        // GitHub's own file names some fields twice: the questions are what is looked at.
        let schema = apollo_compiler::Schema::parse(text, "schema.graphql").unwrap_or_else(|broken| broken.partial);
        Self(Valid::assume_valid(schema))
    }

    /// What GitHub would not understand of a question with its variables.
    pub fn objection(&self, body: &Value) -> Option<String> {
        let text = body["query"].as_str().unwrap_or_default();
        let document = match ExecutableDocument::parse_and_validate(&self.0, text, "question.graphql") {
            Ok(document) => document,
            Err(refused) => return Some(refused.errors.to_string()),
        };
        let Ok(operation) = document.operations.get(None) else { return Some(format!("not one question: {text}")) };
        let given: JsonMap = serde_json::from_value(body["variables"].clone()).unwrap_or_default();
        let declared = |name: &str| operation.variables.iter().any(|variable| variable.name.as_str() == name);
        if let Some((name, _)) = given.iter().find(|(name, _)| !declared(name.as_str())) {
            return Some(format!("{} is no variable of {text}", name.as_str()));
        }
        let refused = coerce_variable_values(&self.0, operation, &given).err()?;
        Some(format!("{} in {text}", refused.message()))
    }
}
