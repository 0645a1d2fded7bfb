//! Reads TOML as values of our types. The `toml` crate would as well, but with three copies of the code for each of our
//! tables, one of which is ever used: a tenth of the program for routers.

use super::spanned::PLACED;
use core::ops::Range;
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong with a text, and where it is known, in octets.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) what: String,
    pub(crate) span: Option<Range<usize>>,
}

impl Mistake {
    /// The innermost place is the one to tell.
    fn at(mut self, span: &Range<usize>) -> Mistake {
        self.span.get_or_insert(span.clone());
        self
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Mistake {}

impl Error for Mistake {
    fn custom<T: fmt::Display>(what: T) -> Mistake {
        Mistake { what: what.to_string(), span: None }
    }
}

impl From<toml::de::Error> for Mistake {
    fn from(error: toml::de::Error) -> Mistake {
        Mistake { what: error.message().to_owned(), span: error.span() }
    }
}

/// Reads a text as TOML of the shape `T`.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Mistake> {
    read_part(text, 0)
}

/// Reads a part of a text, which begins at this octet of it: places are those of the whole text.
pub(crate) fn read_part<T: DeserializeOwned>(part: &str, offset: usize) -> Result<T, Mistake> {
    let table = DeTable::parse(part).map_err(|error| {
        let mistake = Mistake::from(error);
        Mistake { span: mistake.span.map(|span| moved(span, offset)), ..mistake }
    })?;
    T::deserialize(Reader { span: moved(table.span(), offset), thing: Thing::Table(table.get_ref()), offset })
}

fn moved(span: Range<usize>, offset: usize) -> Range<usize> {
    span.start.saturating_add(offset)..span.end.saturating_add(offset)
}

/// What is at hand, and its place.
struct Reader<'a> {
    thing: Thing<'a>,
    span: Range<usize>,
    /// Where the text that was read begins in the whole.
    offset: usize,
}

enum Thing<'a> {
    Table(&'a DeTable<'a>),
    Value(&'a DeValue<'a>),
    Key(&'a str),
    /// Where a value begins or ends.
    Place(usize),
}

impl<'a> Reader<'a> {
    fn of(value: &'a Spanned<DeValue<'a>>, offset: usize) -> Reader<'a> {
        Reader { span: moved(value.span(), offset), thing: Thing::Value(value.get_ref()), offset }
    }

    /// A value behind its place, as [`PLACED`] wants them.
    fn with_place(self) -> Elements<std::array::IntoIter<Reader<'a>, 3>> {
        let (Range { start, end }, offset) = (self.span, self.offset);
        let things = [Thing::Place(start), Thing::Place(end), self.thing];
        Elements(things.map(|thing| Reader { span: start..end, thing, offset }).into_iter())
    }

    fn visit<V: Visitor<'a>>(thing: Thing<'a>, offset: usize, visitor: V) -> Result<V::Value, Mistake> {
        match thing {
            Thing::Key(name) => visitor.visit_borrowed_str(name),
            Thing::Place(octets) => visitor.visit_u64(octets as u64),
            Thing::Table(table) | Thing::Value(DeValue::Table(table)) => {
                let entry = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
                    let name: &'a std::borrow::Cow<'a, str> = key.get_ref();
                    let span = moved(key.span(), offset);
                    (Reader { span, thing: Thing::Key(name), offset }, Reader::of(value, offset))
                };
                visitor.visit_map(Parts(table.iter().map(entry).collect::<Vec<_>>().into_iter(), None))
            }
            Thing::Value(DeValue::Array(values)) => {
                visitor.visit_seq(Elements(values.iter().map(|value| Reader::of(value, offset))))
            }
            Thing::Value(DeValue::String(text)) => visitor.visit_borrowed_str(text),
            Thing::Value(DeValue::Boolean(value)) => visitor.visit_bool(*value),
            Thing::Value(DeValue::Integer(digits)) => match i64::from_str_radix(digits.as_str(), digits.radix()) {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => Err(Mistake::custom("a number of more than 63 bits")),
            },
            Thing::Value(DeValue::Float(digits)) => match digits.as_str().parse() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => Err(Mistake::custom("not a number")),
            },
            Thing::Value(DeValue::Datetime(_)) => Err(Mistake::custom("a date is nothing roam6 can use")),
        }
    }
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        Reader::visit(self.thing, self.offset, visitor).map_err(|mistake| mistake.at(&self.span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Mistake> {
        if name != PLACED {
            return visitor.visit_newtype_struct(self);
        }
        let span = self.span.clone();
        visitor.visit_seq(self.with_place()).map_err(|mistake| mistake.at(&span))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let word = match self.thing {
            Thing::Key(word) => word,
            Thing::Value(DeValue::String(word)) => word,
            _ => return Err(Mistake::custom("a word is expected").at(&self.span)),
        };
        let word: StrDeserializer<'_, Mistake> = word.into_deserializer();
        visitor.visit_enum(word).map_err(|mistake| mistake.at(&self.span))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// Names with values, and the value whose name was read.
struct Parts<'a>(std::vec::IntoIter<(Reader<'a>, Reader<'a>)>, Option<Reader<'a>>);

impl<'de> MapAccess<'de> for Parts<'de> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mistake> {
        let Some((key, value)) = self.0.next() else { return Ok(None) };
        self.1 = Some(value);
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mistake> {
        seed.deserialize(self.1.take().ok_or_else(|| Mistake::custom("a value without a name"))?)
    }
}

struct Elements<I>(I);

impl<'de, I: Iterator<Item = Reader<'de>>> SeqAccess<'de> for Elements<I> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mistake> {
        self.0.next().map(|value| seed.deserialize(value)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::super::spanned::Spanned;
    use super::read;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
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
    fn values_are_read_with_their_places() {
        let text = "number = 0x1f\nword = \"two\"\nname = 'ü'\nlist = [1.5, -2e3]\n";
        let table: Table = read(text).unwrap();
        assert_eq!((table.number, table.word), (31, Some(Word::Two)));
        let name = table.name.unwrap();
        assert_eq!((name.get_ref().as_str(), &text[name.span()]), ("ü", "'ü'"));
        assert_eq!(table.list.iter().map(|item| &text[item.span()]).collect::<Vec<_>>(), ["1.5", "-2e3"]);
        assert_eq!(table.list.into_iter().map(Spanned::into_inner).collect::<Vec<_>>(), [1.5, -2000.0]);
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        for (text, place, what) in [
            ("number = 256", "256", "invalid value: integer `256`, expected u8"),
            ("number = '1'", "'1'", "invalid type: string \"1\", expected u8"),
            ("number = 1\nnumbr = 2", "numbr", "unknown field `numbr`"),
            ("number = 1\nword = 'tow'", "'tow'", "unknown variant `tow`, expected `one` or `two`"),
            ("number = 1\nword = 2", "2", "a word is expected"),
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
