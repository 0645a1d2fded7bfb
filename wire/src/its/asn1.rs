//! ASN.1 types in the order of the standards' modules: SEQUENCE, CHOICE, ENUMERATED and constrained types.

/// Declares ASN.1 types, coded in PER with automatic tags.
///
/// A constraint follows the type it constrains, in brackets, in the codec's own notation. `extensible` is the
/// extension marker: such a type cannot be built outside of this crate but by its constructor. The values of an
/// enumeration count from 0.
macro_rules! asn1 {
    () => {};
    ($(#[$meta:meta])* extensible $($rest:tt)*) => {
        asn1! { $(#[$meta])* #[non_exhaustive] $($rest)* }
    };
    ($(#[$meta:meta])* sequence $name:ident {
        $($(#[$doc:meta])* $field:ident: $outer:ident $(<$inner:ty>)? $([$($bounds:tt)+])?,)+
    } $($rest:tt)*) => {
        $(#[$meta])*
        #[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
        #[rasn(automatic_tags)]
        pub struct $name {
            $($(#[$doc])* $(#[rasn($($bounds)+)])? pub $field: $outer $(<$inner>)?,)+
        }
        asn1! { $($rest)* }
    };
    ($(#[$meta:meta])* choice $name:ident {
        $($(#[$doc:meta])* $variant:ident($type:ty) $([$($bounds:tt)+])?,)+
    } $($rest:tt)*) => {
        $(#[$meta])*
        #[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
        #[rasn(choice, automatic_tags)]
        pub enum $name {
            $($(#[$doc])* $(#[rasn($($bounds)+)])? $variant($type),)+
        }
        asn1! { $($rest)* }
    };
    ($(#[$meta:meta])* enumerated $name:ident { $($(#[$doc:meta])* $variant:ident,)+ } $($rest:tt)*) => {
        $(#[$meta])*
        #[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[rasn(enumerated)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }
        asn1! { $($rest)* }
    };
    ($(#[$meta:meta])* type $name:ident($type:ty) $([$($bounds:tt)+])?; $($rest:tt)*) => {
        $(#[$meta])*
        #[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
        #[rasn(delegate $(, $($bounds)+)?)]
        pub struct $name(pub $type);
        asn1! { $($rest)* }
    };
}

pub(super) use asn1;
