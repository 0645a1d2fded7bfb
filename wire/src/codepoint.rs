//! Open code points: a value that the standard has assigned has a name and a text, and any other survives a round trip.

use core::fmt;

/// Declares a newtype over an unsigned integer with a constant and a text for each assigned value.
///
/// Declares also `text`, which is `None` for an unassigned value. How a value is displayed is left to the type.
macro_rules! code_points {
    ($(#[$meta:meta])* $name:ident($integer:ty) { $($constant:ident = $value:literal, $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $integer);

        impl $name {
            $(#[doc = concat!("Value ", $value, ": ", $text, ".")]
            pub const $constant: $name = $name($value);)*

            const ASSIGNED: &[($name, &str)] = &[$(($name::$constant, $text)),*];

            /// The text of the value; `None` if the value is unassigned.
            pub fn text(self) -> Option<&'static str> {
                Self::ASSIGNED.iter().find(|(value, _)| *value == self).map(|(_, text)| *text)
            }
        }
    };
}

/// Declares a set of flags over an unsigned integer with a constant for each flag.
macro_rules! flags {
    ($(#[$meta:meta])* $name:ident($integer:ty) { $($(#[$doc:meta])* $constant:ident = $value:literal;)* }) => {
        $(#[$meta])*
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $integer);

        impl $name {
            /// No flag.
            pub const NONE: $name = $name(0);
            $($(#[$doc])* pub const $constant: $name = $name($value);)*

            /// Whether all of `flags` are set.
            pub fn contains(self, flags: $name) -> bool {
                self.0 & flags.0 == flags.0
            }
        }

        impl core::ops::BitOr for $name {
            type Output = $name;

            fn bitor(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
        }
    };
}

pub(crate) use {code_points, flags};

/// Displays a code point as its number, followed by its text in parentheses.
pub(crate) fn display_number(f: &mut fmt::Formatter<'_>, number: u8, text: Option<&str>) -> fmt::Result {
    match text {
        Some(text) => write!(f, "{number} ({text})"),
        None => write!(f, "{number}"),
    }
}

/// Displays a code point as its text; an unassigned one as `what` and its number.
pub(crate) fn display_text(
    f: &mut fmt::Formatter<'_>,
    text: Option<&str>,
    what: &str,
    number: impl Into<u32>,
) -> fmt::Result {
    match text {
        Some(text) => f.write_str(text),
        None => write!(f, "{what} {}", number.into()),
    }
}
