//! This in, exactly this out: a home agent on a bench.

mod bench;

mod registration;
