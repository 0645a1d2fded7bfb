//! A deserializer for TOML. That of the `toml` crate instantiates the code of each table three times, of which one is used: a
//! tenth of the binary for routers. A key that its struct has no field for is refused, unless the struct is an [`EXTRACT`].

use super::spanned::SPANNED;
use core::ops::Range;
use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error, IntoDeserializer, Visitor};
use std::fmt;
use toml::Spanned;
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

/// Reads a text as TOML of the shape `T`.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, ParseError> {
    read_part(text, 0)
}

/// Reads a part of a text that begins at this octet; locations refer to the whole text.
pub(crate) fn read_part<T: DeserializeOwned>(part: &str, offset: usize) -> Result<T, ParseError> {
    let table = DeTable::parse(part).map_err(|error| {
        let mistake = ParseError::from(error);
        ParseError { span: mistake.span.map(|span| shift_span(span, offset)), ..mistake }
    })?;
    T::deserialize(TomlDeserializer {
        span: shift_span(table.span(), offset),
        item: TomlItem::Table(table.get_ref()),
        offset,
    })
}

fn shift_span(span: Range<usize>, offset: usize) -> Range<usize> {
    span.start.saturating_add(offset)..span.end.saturating_add(offset)
}

/// The serde name of a struct with some of a table's keys only: the others are ignored.
const EXTRACT: &str = "$extract";

/// The names of a struct's fields.
type Fields = &'static [&'static str];

/// A value to deserialize, and its location.
struct TomlDeserializer<'a> {
    item: TomlItem<'a>,
    span: Range<usize>,
    /// Offset of the parsed part in the whole text.
    offset: usize,
}

enum TomlItem<'a> {
    Table(&'a DeTable<'a>),
    Value(&'a DeValue<'a>),
    /// A key, and those that its table may have; `None`: any.
    Key(&'a str, Option<Fields>),
    /// Start or end of a value.
    Offset(usize),
}

impl<'a> TomlDeserializer<'a> {
    fn of(value: &'a Spanned<DeValue<'a>>, offset: usize) -> TomlDeserializer<'a> {
        TomlDeserializer { span: shift_span(value.span(), offset), item: TomlItem::Value(value.get_ref()), offset }
    }

    /// A value behind its place, as [`SPANNED`] requests it.
    fn span_and_value(self) -> [TomlDeserializer<'a>; 3] {
        let (Range { start, end }, offset) = (self.span, self.offset);
        let things = [TomlItem::Offset(start), TomlItem::Offset(end), self.item];
        things.map(|item| TomlDeserializer { span: start..end, item, offset })
    }

    fn visit<V: Visitor<'a>>(self, fields: Option<Fields>, visitor: V) -> Result<V::Value, ParseError> {
        let offset = self.offset;
        let visited = match self.item {
            TomlItem::Key(name, Some(known)) if !known.contains(&name) => Err(ParseError::unknown_field(name, known)),
            TomlItem::Key(name, _) => visitor.visit_borrowed_str(name),
            TomlItem::Offset(octets) => visitor.visit_u64(octets as u64),
            TomlItem::Table(table) | TomlItem::Value(DeValue::Table(table)) => {
                let entry = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
                    let name: &'a std::borrow::Cow<'a, str> = key.get_ref();
                    let (item, span) = (TomlItem::Key(name, fields), shift_span(key.span(), offset));
                    (TomlDeserializer { span, item, offset }, TomlDeserializer::of(value, offset))
                };
                visitor.visit_map(MapDeserializer::new(table.iter().map(entry)))
            }
            TomlItem::Value(DeValue::Array(values)) => {
                visitor.visit_seq(SeqDeserializer::new(values.iter().map(|value| TomlDeserializer::of(value, offset))))
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
        };
        visited.map_err(|mistake| mistake.with_span(&self.span))
    }
}

impl<'de> Deserializer<'de> for TomlDeserializer<'de> {
    type Error = ParseError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParseError> {
        self.visit(None, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: Fields,
        visitor: V,
    ) -> Result<V::Value, ParseError> {
        self.visit((name != EXTRACT).then_some(fields), visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParseError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ParseError> {
        if name != SPANNED {
            return visitor.visit_newtype_struct(self);
        }
        let span = self.span.clone();
        visitor
            .visit_seq(SeqDeserializer::new(self.span_and_value().into_iter()))
            .map_err(|mistake| mistake.with_span(&span))
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, _: Fields, visitor: V) -> Result<V::Value, ParseError> {
        let word = match self.item {
            TomlItem::Key(word, _) => word,
            TomlItem::Value(DeValue::String(word)) => word,
            _ => return Err(ParseError::custom("a string is expected").with_span(&self.span)),
        };
        let word: StrDeserializer<'_, ParseError> = word.into_deserializer();
        visitor.visit_enum(word).map_err(|mistake| mistake.with_span(&self.span))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, ParseError> for TomlDeserializer<'de> {
    type Deserializer = TomlDeserializer<'de>;

    fn into_deserializer(self) -> TomlDeserializer<'de> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::spanned::Spanned;
    use super::read;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Table {
        number: u8,
        word: Option<Word>,
        name: Option<Spanned<String>>,
        #[serde(default)]
        list: Vec<Spanned<f64>>,
    }

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
