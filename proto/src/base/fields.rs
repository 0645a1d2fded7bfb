//! Structs read from JSON by little code.
//!
//! A derived deserializer costs half a kilobyte of code for each field, and that again for each source of values; the views
//! of a node took a thirtieth of the program on small routers. Here a value is parsed first, and then each field is taken
//! out of it by its name.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use serde_json::{Error, Map, Value};

/// The fields of a struct that are not read yet.
pub struct Fields(Map<String, Value>);

/// A struct that is read field by field; [`read_fields`](crate::read_fields) implements it.
pub trait FromFields: Sized {
    /// Reads all fields.
    ///
    /// # Errors
    /// One is missing, or of another type.
    fn from_fields(fields: &mut Fields) -> Result<Self, Error>;
}

impl Fields {
    /// Reads a field.
    ///
    /// # Errors
    /// It is missing, and no option, or of another type.
    #[inline(never)]
    pub fn take<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<T, Error> {
        let value = self.0.remove(name);
        let is_missing = value.is_none();
        T::deserialize(value.unwrap_or_default()).map_err(|error| explain(name, is_missing, error))
    }
}

#[cold]
fn explain(name: &str, is_missing: bool, error: Error) -> Error {
    if is_missing {
        Error::custom(format_args!("missing field `{name}`"))
    } else {
        Error::custom(format_args!("{name}: {error}"))
    }
}

/// Reads a struct.
///
/// # Errors
/// The value is no map of its fields.
pub fn deserialize<'de, T: FromFields, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let fields = Map::deserialize(deserializer)?;
    T::from_fields(&mut Fields(fields)).map_err(D::Error::custom)
}

/// Implements `Deserialize` for a struct by the names of its fields: `as "NAME"` for another name in JSON, `= VALUE` for what
/// a missing field has; a missing option is `None` in any case.
#[macro_export]
macro_rules! read_fields {
    ($type:ty { $($(#[$attribute:meta])* $field:ident $(as $name:literal)? $(= $default:expr)?),+ $(,)? }) => {
        impl $crate::base::fields::FromFields for $type {
            fn from_fields(
                fields: &mut $crate::base::fields::Fields,
            ) -> ::core::result::Result<Self, ::serde_json::Error> {
                Ok(Self { $(
                    $(#[$attribute])* $field: $crate::read_fields!(@take fields, ($field $($name)?) $(, $default)?)
                ),+ })
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> ::core::result::Result<Self, D::Error> {
                $crate::base::fields::deserialize(deserializer)
            }
        }
    };
    (@take $fields:ident, $name:tt) => { $fields.take($crate::read_fields!(@name $name))? };
    (@take $fields:ident, $name:tt, $default:expr) => {
        match $fields.take::<Option<_>>($crate::read_fields!(@name $name))? { Some(value) => value, None => $default }
    };
    (@name ($field:ident)) => { stringify!($field) };
    (@name ($field:ident $name:literal)) => { $name };
}

#[cfg(test)]
mod tests {
    #[derive(Debug, PartialEq)]
    struct Row {
        number: u8,
        word: Option<String>,
        kind: bool,
        inner: Vec<Inner>,
    }

    #[derive(Debug, PartialEq)]
    struct Inner {
        at: u64,
    }

    read_fields!(Row { number, word, kind as "type" = true, inner = Vec::new() });
    read_fields!(Inner { at });

    #[test]
    fn fields_are_read_by_name() {
        let read = |text| serde_json::from_str::<Row>(text).map_err(|error| error.to_string());
        let row = Row { number: 7, word: None, kind: true, inner: Vec::new() };
        assert_eq!(read(r#"{"number":7}"#), Ok(row));
        let row = Row { number: 7, word: Some("a".to_owned()), kind: false, inner: vec![Inner { at: 1 }] };
        assert_eq!(read(r#"{"new":[],"inner":[{"at":1}],"type":false,"word":"a","number":7}"#), Ok(row));
        for (text, why) in [
            ("{}", "missing field `number`"),
            (r#"{"number":256}"#, "number: invalid value: integer `256`, expected u8"),
            (r#"{"number":7,"inner":[{}]}"#, "inner: missing field `at`"),
            ("[7]", "invalid type: sequence, expected a map"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.starts_with(why), "{text}: {said}");
        }
    }
}
