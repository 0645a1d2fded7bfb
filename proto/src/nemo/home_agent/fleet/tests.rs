//! A member of a fleet: this in, exactly this out. The store is the test.

mod bench;
mod commit;
mod conflict;
mod pool;
mod states;
mod tidy;
