//! Open code points: a value that the standard has assigned has a name and a text, and any other survives a round trip.

use core::ops::BitOr;

/// Declares a newtype over an unsigned integer with a constant and a text for each assigned value.
///
/// Declares also `text`, which is `None` for an unassigned value. With `as number` a value is displayed as its number,
/// followed by its text in parentheses; with `as "what"` as its text, and an unassigned one as `what` and its number.
macro_rules! code_points {
    ($(#[$meta:meta])* $name:ident($integer:ty) as number $values:tt) => {
        code_points! { $(#[$meta])* $name($integer) $values }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.text() {
                    Some(text) => write!(f, "{} ({text})", self.0),
                    None => write!(f, "{}", self.0),
                }
            }
        }
    };
    ($(#[$meta:meta])* $name:ident($integer:ty) as $what:literal $values:tt) => {
        code_points! { $(#[$meta])* $name($integer) $values }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.text() {
                    Some(text) => f.write_str(text),
                    None => write!(f, concat!($what, " {}"), self.0),
                }
            }
        }
    };
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

/// Declares an enum of the values that a field may have; the receiver refuses any other.
macro_rules! field_values {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant = $value,)*
        }

        impl $name {
            /// Of the value of the field; `None` for any other value.
            pub fn from_value(value: u8) -> Option<$name> {
                match value {
                    $($value => Some($name::$variant),)*
                    _ => None,
                }
            }

            /// The value of the field.
            pub fn value(self) -> u8 {
                self as u8
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

/// The bits that are set, of flags and their bits.
pub(crate) fn set_bits<const COUNT: usize, T: Default + BitOr<Output = T>>(flags: [(bool, T); COUNT]) -> T {
    flags.into_iter().filter(|(set, _)| *set).fold(T::default(), |bits, (_, bit)| bits | bit)
}

pub(crate) use {code_points, field_values, flags};
