//! The kinds of worlds of a family.

/// Declares the kinds of worlds of a family, which the seeds have in turn.
macro_rules! kinds {
    ($(#[$doc:meta])* $name:ident { $($(#[$kind_doc:meta])* $kind:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$kind_doc])* $kind,)+ }

        impl $name {
            /// The kind of the world of `seed`.
            pub fn of_seed(seed: u64) -> $name {
                let all = [$($name::$kind),+];
                let index = usize::try_from(seed % all.len() as u64).unwrap_or(0);
                all.get(index).copied().unwrap_or(all[0])
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Debug::fmt(self, f)
            }
        }
    };
}

pub(crate) use kinds;
