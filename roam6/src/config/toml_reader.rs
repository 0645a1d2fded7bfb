//! Reads TOML. Derived deserializers cost half a kilobyte of code for each key, in sum a twentieth of the program on small
//! routers; [`FromToml`] costs a fifth of that, because all that does not depend on the type of a value is compiled once. Only
//! plain values are read by serde. A key that its struct has no field for is refused, unless the struct is an extract.

use super::spanned::Spanned;
use core::ops::Range;
use roam6_proto::base::vec_map::VecMap;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error, IntoDeserializer, Unexpected, Visitor};
use std::fmt;
use toml::de::{DeTable, DeValue};

/// A parse error with its location in octets, if known.
#[derive(Debug)]
pub(crate) struct ParseError {
    pub(crate) what: String,
    pub(crate) span: Option<Range<usize>>,
}

impl ParseError {
    /// Sets the location, unless an inner value has already set it.
    fn with_span(mut self, span: &Range<usize>) -> ParseError {
        self.span.get_or_insert(span.clone());
        self
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for ParseError {}

impl Error for ParseError {
    fn custom<T: fmt::Display>(what: T) -> ParseError {
        ParseError { what: what.to_string(), span: None }
    }
}

impl From<toml::de::Error> for ParseError {
    fn from(error: toml::de::Error) -> ParseError {
        ParseError { what: error.message().to_owned(), span: error.span() }
    }
}

/// A type that is read from a value of a TOML document.
pub(crate) trait FromToml: Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// It is of another type.
    fn from_toml(value: TomlValue<'_>) -> Result<Self, ParseError>;

    /// What a key has that is not written, if it need not be.
    fn absent() -> Option<Self> {
        None
    }

    /// Lists the keys and the values at the end of a path of keys.
    #[cfg(test)]
    fn explore(path: &[&'static str], found: &mut explorer::Found);
}

/// Reads a text as TOML of the shape `T`.
pub(crate) fn read<T: FromToml>(text: &str) -> Result<T, ParseError> {
    read_part(text, 0)
}

/// Reads a part of a text that begins at this octet; locations refer to the whole text.
pub(crate) fn read_part<T: FromToml>(part: &str, offset: usize) -> Result<T, ParseError> {
    let table = parse(part, offset)?;
    let span = shift_span(table.span(), offset);
    T::from_toml(TomlValue { item: TomlItem::Table(table.get_ref()), span, offset })
}

fn parse(part: &str, offset: usize) -> Result<toml::Spanned<DeTable<'_>>, ParseError> {
    DeTable::parse(part).map_err(|error| {
        let mistake = ParseError::from(error);
        ParseError { span: mistake.span.map(|span| shift_span(span, offset)), ..mistake }
    })
}

fn shift_span(span: Range<usize>, offset: usize) -> Range<usize> {
    span.start.saturating_add(offset)..span.end.saturating_add(offset)
}

/// A value and its location.
pub(crate) struct TomlValue<'a> {
    item: TomlItem<'a>,
    span: Range<usize>,
    /// Offset of the parsed part in the whole text.
    offset: usize,
}

#[derive(Clone, Copy)]
enum TomlItem<'a> {
    Table(&'a DeTable<'a>),
    Value(&'a DeValue<'a>),
}

impl<'a> TomlValue<'a> {
    fn of(value: &'a toml::Spanned<DeValue<'a>>, offset: usize) -> TomlValue<'a> {
        TomlValue { span: shift_span(value.span(), offset), item: TomlItem::Value(value.get_ref()), offset }
    }

    /// A table, all of whose keys are `known`; `None`: any are.
    ///
    /// # Errors
    /// It is no table, or has another key.
    pub(crate) fn into_table(self, known: Option<&'static [&'static str]>) -> Result<TomlTable<'a>, ParseError> {
        let (TomlItem::Table(table) | TomlItem::Value(DeValue::Table(table))) = self.item else {
            return Err(self.expected(&"a table"));
        };
        if let Some(known) = known {
            for key in table.keys() {
                if !known.contains(&&**key.get_ref()) {
                    let mistake = ParseError::unknown_field(key.get_ref(), known);
                    return Err(mistake.with_span(&shift_span(key.span(), self.offset)));
                }
            }
        }
        Ok(TomlTable { table, span: self.span, offset: self.offset })
    }

    /// Whether it is an array.
    pub(crate) fn is_array(&self) -> bool {
        matches!(self.item, TomlItem::Value(DeValue::Array(_)))
    }

    fn into_array(self) -> Result<&'a [toml::Spanned<DeValue<'a>>], ParseError> {
        match self.item {
            TomlItem::Value(DeValue::Array(values)) => Ok(values),
            _ => Err(self.expected(&"a sequence")),
        }
    }

    /// Another type is expected here.
    fn expected(&self, what: &dyn serde::de::Expected) -> ParseError {
        let found = match self.item {
            TomlItem::Table(_) | TomlItem::Value(DeValue::Table(_)) => Unexpected::Map,
            TomlItem::Value(DeValue::Array(_)) => Unexpected::Seq,
            TomlItem::Value(DeValue::String(text)) => Unexpected::Str(text),
            TomlItem::Value(DeValue::Boolean(value)) => Unexpected::Bool(*value),
            TomlItem::Value(DeValue::Integer(digits)) => i64::from_str_radix(digits.as_str(), digits.radix())
                .map_or(Unexpected::Other("number"), Unexpected::Signed),
            TomlItem::Value(DeValue::Float(_)) => Unexpected::Other("number"),
            TomlItem::Value(DeValue::Datetime(_)) => Unexpected::Other("date"),
        };
        ParseError::invalid_type(found, what).with_span(&self.span)
    }
}

/// A table with known keys.
pub(crate) struct TomlTable<'a> {
    table: &'a DeTable<'a>,
    span: Range<usize>,
    offset: usize,
}

impl<'a> TomlTable<'a> {
    /// The value of a key.
    ///
    /// # Errors
    /// It is of another type, or missing.
    #[inline(never)]
    pub(crate) fn read<T: FromToml>(&self, key: &'static str) -> Result<T, ParseError> {
        match self.value(key) {
            Some(value) => T::from_toml(value),
            None => T::absent().ok_or_else(|| ParseError::missing_field(key).with_span(&self.span)),
        }
    }

    fn value(&self, key: &str) -> Option<TomlValue<'a>> {
        self.table.get(key).map(|value| TomlValue::of(value, self.offset))
    }
}

impl<T: FromToml> FromToml for Option<T> {
    fn from_toml(value: TomlValue<'_>) -> Result<Option<T>, ParseError> {
        T::from_toml(value).map(Some)
    }

    fn absent() -> Option<Option<T>> {
        Some(None)
    }

    #[cfg(test)]
    fn explore(path: &[&'static str], found: &mut explorer::Found) {
        T::explore(path, found);
    }
}

impl<T: FromToml> FromToml for Vec<T> {
    fn from_toml(value: TomlValue<'_>) -> Result<Vec<T>, ParseError> {
        let offset = value.offset;
        let mut items = Vec::new();
        for item in value.into_array()? {
            items.push(T::from_toml(TomlValue::of(item, offset))?);
        }
        Ok(items)
    }

    #[cfg(test)]
    fn explore(path: &[&'static str], found: &mut explorer::Found) {
        T::explore(path, found);
    }
}

/// One value, or a list of them.
pub(crate) struct OneOrMore<T>(pub(crate) Vec<Spanned<T>>);

impl<T: FromToml> FromToml for OneOrMore<T> {
    fn from_toml(value: TomlValue<'_>) -> Result<OneOrMore<T>, ParseError> {
        match value.item {
            TomlItem::Value(DeValue::Array(_)) => Vec::from_toml(value).map(OneOrMore),
            _ => Spanned::from_toml(value).map(|one| OneOrMore(vec![one])),
        }
    }

    #[cfg(test)]
    fn explore(path: &[&'static str], found: &mut explorer::Found) {
        T::explore(path, found);
    }
}

impl<T: FromToml> FromToml for VecMap<String, T> {
    fn from_toml(value: TomlValue<'_>) -> Result<VecMap<String, T>, ParseError> {
        let table = value.into_table(None)?;
        let mut entries = VecMap::new();
        for (key, value) in table.table {
            entries.insert(key.get_ref().to_string(), T::from_toml(TomlValue::of(value, table.offset))?);
        }
        Ok(entries)
    }

    #[cfg(test)]
    fn explore(path: &[&'static str], found: &mut explorer::Found) {
        T::explore(path, found);
    }
}

impl<T: FromToml> FromToml for Spanned<T> {
    fn from_toml(value: TomlValue<'_>) -> Result<Spanned<T>, ParseError> {
        let span = value.span.clone();
        Ok(Spanned::new(T::from_toml(value)?, span))
    }

    #[cfg(test)]
    fn explore(path: &[&'static str], found: &mut explorer::Found) {
        T::explore(path, found);
    }
}

/// Any value, of which only is known that it is there: of keys that this build does not read.
#[cfg(any(not(feature = "fleet"), feature = "setup"))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anything;

#[cfg(any(not(feature = "fleet"), feature = "setup"))]
impl FromToml for Anything {
    fn from_toml(_: TomlValue<'_>) -> Result<Anything, ParseError> {
        Ok(Anything)
    }

    #[cfg(test)]
    fn explore(_: &[&'static str], _: &mut explorer::Found) {}
}

/// Reads structs: each field by the key of its name, or `= VALUE` where the key is missing. An `extract` ignores other keys.
macro_rules! from_toml {
    ($type:ty { $($(#[$attribute:meta])* $field:ident $(= $default:expr)?),+ $(,)? }) => {
        $crate::config::toml_reader::from_toml!(@impl
            $type,
            Some(&[$($(#[$attribute])* stringify!($field)),+]),
            $($(#[$attribute])* $field $(= $default)?),+
        );
    };
    (extract $type:ty { $($(#[$attribute:meta])* $field:ident $(= $default:expr)?),+ $(,)? }) => {
        $crate::config::toml_reader::from_toml!(@impl $type, None, $($(#[$attribute])* $field $(= $default)?),+);
    };
    (@impl $type:ty, $known:expr, $($(#[$attribute:meta])* $field:ident $(= $default:expr)?),+) => {
        impl $crate::config::toml_reader::FromToml for $type {
            fn from_toml(
                value: $crate::config::toml_reader::TomlValue<'_>,
            ) -> Result<$type, $crate::config::toml_reader::ParseError> {
                let table = value.into_table($known)?;
                Ok(Self { $($(#[$attribute])* $field: $crate::config::toml_reader::from_toml!(@read table, stringify!($field) $(, $default)?)),+ })
            }

            #[cfg(test)]
            fn explore(path: &[&'static str], found: &mut $crate::config::toml_reader::explorer::Found) {
                use $crate::config::toml_reader::explorer::below;
                let Some((first, path)) = path.split_first() else {
                    $($(#[$attribute])* found.keys.push(stringify!($field));)+
                    return;
                };
                $($(#[$attribute])* if *first == stringify!($field) {
                    return below(|this: &Self| &this.$field, path, found);
                })+
            }
        }
    };
    (@read $table:ident, $key:expr) => { $table.read($key)? };
    (@read $table:ident, $key:expr, $default:expr) => {
        match $table.read::<Option<_>>($key)? { Some(value) => value, None => $default }
    };
}

pub(crate) use from_toml;

/// Plain values, and those that are read from one, by serde.
macro_rules! plain_toml {
    ($($type:ty),+ $(,)?) => { $(
        impl $crate::config::toml_reader::FromToml for $type {
            fn from_toml(
                value: $crate::config::toml_reader::TomlValue<'_>,
            ) -> Result<$type, $crate::config::toml_reader::ParseError> {
                $crate::config::toml_reader::plain(value)
            }

            #[cfg(test)]
            fn explore(_: &[&'static str], found: &mut $crate::config::toml_reader::explorer::Found) {
                $crate::config::toml_reader::explorer::values::<$type>(found);
            }
        }
    )+ };
}

pub(crate) use plain_toml;

plain_toml!(bool, u8, u16, u32, u64, usize, f64, String, std::path::PathBuf);
plain_toml!(std::net::Ipv4Addr, std::net::Ipv6Addr, std::net::SocketAddr, roam6_wire::Prefix);

/// Reads a plain value.
pub(crate) fn plain<T: DeserializeOwned>(value: TomlValue<'_>) -> Result<T, ParseError> {
    let span = value.span.clone();
    T::deserialize(PlainDeserializer(value)).map_err(|mistake| mistake.with_span(&span))
}

/// Deserializes what is neither a table nor an array.
struct PlainDeserializer<'a>(TomlValue<'a>);

impl<'de> Deserializer<'de> for PlainDeserializer<'de> {
    type Error = ParseError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParseError> {
        match self.0.item {
            TomlItem::Table(_) | TomlItem::Value(DeValue::Table(_) | DeValue::Array(_)) => {
                Err(self.0.expected(&visitor))
            }
            TomlItem::Value(DeValue::String(text)) => visitor.visit_borrowed_str(text),
            TomlItem::Value(DeValue::Boolean(value)) => visitor.visit_bool(*value),
            TomlItem::Value(DeValue::Integer(digits)) => match i64::from_str_radix(digits.as_str(), digits.radix()) {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => Err(ParseError::custom("a number of more than 63 bits")),
            },
            TomlItem::Value(DeValue::Float(digits)) => match digits.as_str().parse() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => Err(ParseError::custom("not a number")),
            },
            TomlItem::Value(DeValue::Datetime(_)) => Err(ParseError::custom("a date is nothing roam6 can use")),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, ParseError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ParseError> {
        let TomlItem::Value(DeValue::String(word)) = self.0.item else {
            return Err(ParseError::custom("a string is expected"));
        };
        let word: StrDeserializer<'_, ParseError> = (&**word).into_deserializer();
        visitor.visit_enum(word)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct option identifier ignored_any
    }
}

/// What keys and values the configuration knows.
#[cfg(test)]
pub(crate) mod explorer {
    use super::FromToml;
    use serde::de::value::Error;
    use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};

    /// The keys of a table, or the values of an enum.
    #[derive(Default)]
    pub(crate) struct Found {
        pub(crate) keys: Vec<&'static str>,
        pub(crate) values: Vec<&'static str>,
    }

    /// Explores a field.
    pub(crate) fn below<S, T: FromToml>(_: fn(&S) -> &T, path: &[&'static str], found: &mut Found) {
        T::explore(path, found);
    }

    /// Lists the values of an enum.
    pub(crate) fn values<T: DeserializeOwned>(found: &mut Found) {
        assert!(T::deserialize(ValueLister(found)).is_err(), "a value was made of nothing");
    }

    struct ValueLister<'a>(&'a mut Found);

    impl<'de> Deserializer<'de> for ValueLister<'_> {
        type Error = Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(Error::custom("a plain value"))
        }

        fn deserialize_enum<V: Visitor<'de>>(
            self,
            _: &'static str,
            values: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Error> {
            self.0.values.extend(values);
            Err(Error::custom("an enum"))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
            tuple_struct map struct option newtype_struct identifier ignored_any
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::spanned::Spanned;
    use super::read;
    use serde::Deserialize;

    #[derive(Debug, PartialEq)]
    struct Table {
        number: u8,
        word: Option<Word>,
        name: Option<Spanned<String>>,
        list: Vec<Spanned<f64>>,
    }

    from_toml!(Table { number, word, name, list = Vec::new() });
    plain_toml!(Word);

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        One,
        Two,
    }

    #[test]
    fn values_are_read_with_their_spans() {
        let text = "number = 0x1f\nword = \"two\"\nname = 'ü'\nlist = [1.5, -2e3]\n";
        let table: Table = read(text).unwrap();
        assert_eq!((table.number, table.word), (31, Some(Word::Two)));
        let name = table.name.unwrap();
        assert_eq!((name.as_str(), &text[name.span()]), ("ü", "'ü'"));
        assert_eq!(table.list.iter().map(|item| &text[item.span()]).collect::<Vec<_>>(), ["1.5", "-2e3"]);
        assert_eq!(table.list.into_iter().map(Spanned::into_inner).collect::<Vec<_>>(), [1.5, -2000.0]);
    }

    #[test]
    fn an_error_has_the_span_of_the_value() {
        for (text, place, what) in [
            ("number = 256", "256", "invalid value: integer `256`, expected u8"),
            ("number = '1'", "'1'", "invalid type: string \"1\", expected u8"),
            ("number = 1\nnumbr = 2", "numbr", "unknown field `numbr`"),
            ("number = 1\nword = 'tow'", "'tow'", "unknown variant `tow`, expected `one` or `two`"),
            ("number = 1\nword = 2", "2", "a string is expected"),
            ("number = 1\nlist = [0.5, 1979-05-27]", "1979-05-27", "a date is nothing roam6 can use"),
            ("number = 99999999999999999999", "99999999999999999999", "a number of more than 63 bits"),
            ("word = 'one'", "", "missing field `number`"),
            ("number = ", "", "string values must be quoted"),
        ] {
            let mistake = read::<Table>(text).unwrap_err();
            assert!(mistake.what.starts_with(what), "{text}: {mistake}");
            assert_eq!(mistake.span.map(|span| &text[span]), Some(place), "{text}");
        }
    }
}
