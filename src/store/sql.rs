//! A statement as a value: a text, known at compile time, and its parameters.
//!
//! What may not live here: a connection, or a word about engines. Every text is written with [`sql!`], which also enters
//! it into one list, so that a test (and `doctor`) can have both engines prepare each of them.

use super::StoreError;
use crate::model::Timestamp;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

/// A text of this program, with the place it is written at.
pub struct Statement {
    pub text: &'static str,
    pub file: &'static str,
    pub line: u32,
}

inventory::collect!(Statement);

/// Every statement of this program.
pub fn statements() -> impl Iterator<Item = &'static Statement> {
    inventory::iter::<Statement>.into_iter()
}

/// Makes a [`Sql`] from a text (a literal, or literals joined with `concat!`) and enters it into the list.
macro_rules! sql {
    ($text:expr) => {{
        inventory::submit! {
            $crate::store::sql::Statement { text: $text, file: file!(), line: line!() }
        }
        $crate::store::sql::Sql::new($text)
    }};
}
pub(super) use sql;

/// A statement with its parameters, ready for either engine.
#[derive(Clone)]
pub(super) struct Sql {
    pub text: &'static str,
    pub params: Vec<Param>,
}

/// A parameter. The kind stays known when there is no value.
#[derive(Clone, Debug)]
pub(super) enum Param {
    Text(Option<String>),
    Integer(Option<i64>),
    Bool(Option<bool>),
    Id(Option<Uuid>),
    Time(Option<Timestamp>),
    Json(Option<Value>),
    Bytes(Option<Vec<u8>>),
}

impl Sql {
    pub fn new(text: &'static str) -> Self {
        Self { text, params: Vec::new() }
    }

    pub fn bind(mut self, value: impl ToParam) -> Self {
        self.params.push(match value.to_param() {
            Param::Text(Some(text)) => Param::Text(Some(storable(text))),
            other => other,
        });
        self
    }

    pub fn bind_json(mut self, value: &impl Serialize) -> Result<Self, StoreError> {
        let mut value = serde_json::to_value(value)
            .map_err(|error| StoreError::Corrupt { what: "a value to be stored".into(), why: error.to_string() })?;
        make_storable(&mut value);
        self.params.push(Param::Json(Some(value)));
        Ok(self)
    }

    pub fn bind_json_option(self, value: Option<&impl Serialize>) -> Result<Self, StoreError> {
        match value {
            Some(value) => self.bind_json(value),
            None => {
                let mut this = self;
                this.params.push(Param::Json(None));
                Ok(this)
            }
        }
    }

    /// A plain `SELECT` may go to a connection that cannot write.
    pub fn only_reads(&self) -> bool {
        self.text.starts_with("SELECT")
    }
}

/// Something that can be a parameter.
pub(super) trait ToParam {
    /// What stands for the absence of such a value.
    const NULL: Param;
    fn to_param(&self) -> Param;
}

impl<T: ToParam> ToParam for Option<T> {
    const NULL: Param = T::NULL;
    fn to_param(&self) -> Param {
        self.as_ref().map_or(T::NULL, ToParam::to_param)
    }
}

impl<T: ToParam + ?Sized> ToParam for &T {
    const NULL: Param = T::NULL;
    fn to_param(&self) -> Param {
        (**self).to_param()
    }
}

/// One of the engines cannot keep U+0000 in a text; it is replaced, so that both keep the same.
fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text }
}

fn make_storable(value: &mut Value) {
    match value {
        Value::String(text) => *text = storable(std::mem::take(text)),
        Value::Array(items) => items.iter_mut().for_each(make_storable),
        Value::Object(fields) => {
            if fields.keys().any(|key| key.contains('\0')) {
                *fields = std::mem::take(fields).into_iter().map(|(key, value)| (storable(key), value)).collect();
            }
            fields.values_mut().for_each(make_storable);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A fresh row id. Ids of one process sort in the order they were made.
pub(super) fn new_id<T: From<Uuid>>() -> T {
    Uuid::now_v7().into()
}
