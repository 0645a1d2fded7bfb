//! Many candidates at once: the vector units, and the one place where their code is entered. The code itself is safe;
//! to run it on a processor without the unit would not be, which only a check at run time can know.
#![allow(unsafe_code)]

#[cfg(any(test, not(any(target_arch = "aarch64", target_arch = "x86_64"))))]
mod scalar;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod schedules;
#[cfg(target_arch = "x86_64")]
mod sha_ni;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod vector;

use crate::stretch::Stretch;
use std::fmt;

/// How candidates are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Twice sixteen at once.
    Avx512,
    /// Twice eight at once.
    Avx2,
    /// Two at once, by the instructions made for SHA-1.
    ShaNi,
    /// By what the compiler has for this processor: a few at once where it has vectors, else one after the other.
    Portable,
}

impl Method {
    /// All that this processor can do, the fastest first.
    pub fn available() -> Vec<Method> {
        let all = [Method::Avx512, Method::Avx2, Method::ShaNi, Method::Portable];
        all.into_iter().filter(|method| method.is_here()).collect()
    }

    /// The fastest this processor can do.
    pub fn best() -> Method {
        Method::available().first().copied().unwrap_or(Method::Portable)
    }

    #[cfg(target_arch = "x86_64")]
    fn is_here(self) -> bool {
        match self {
            Method::Avx512 => is_x86_feature_detected!("avx512f"),
            Method::Avx2 => is_x86_feature_detected!("avx2"),
            Method::ShaNi => is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1"),
            Method::Portable => true,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_here(self) -> bool {
        self == Method::Portable
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Avx512 => "AVX-512",
            Method::Avx2 => "AVX2",
            Method::ShaNi => "SHA-NI",
            Method::Portable => "portable",
        })
    }
}

/// The first of `count` words from `first` on that fits; where the processor lacks `method`, the portable way.
#[cfg(target_arch = "x86_64")]
pub(super) fn scan(stretch: &Stretch, method: Method, first: u32, count: u64) -> Option<u32> {
    match method {
        // SAFETY: the processor has what the function is compiled for; so says the guard, here and below.
        Method::Avx512 if method.is_here() => unsafe { vector::avx512::scan(stretch, first, count) },
        // SAFETY: as above.
        Method::Avx2 if method.is_here() => unsafe { vector::avx2::scan(stretch, first, count) },
        // SAFETY: as above.
        Method::ShaNi if method.is_here() => unsafe { sha_ni::scan(stretch, first, count) },
        _ => vector::portable::scan(stretch, first, count),
    }
}

/// The first of `count` words from `first` on that fits.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn scan(stretch: &Stretch, _method: Method, first: u32, count: u64) -> Option<u32> {
    #[cfg(not(target_arch = "aarch64"))]
    use scalar as method;
    #[cfg(target_arch = "aarch64")]
    use vector::portable as method;
    method::scan(stretch, first, count)
}
