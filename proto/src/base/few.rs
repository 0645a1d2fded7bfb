//! Ordered maps and sets for few entries: a sorted vector.
//!
//! Each instance of `std`'s `BTreeMap` costs some kilobytes of code, in sum a tenth of the program on small routers. Most
//! tables of an engine are small by nature (links, uplinks, routers of a link) or limited to some hundreds of entries; there
//! the search in a vector is as fast, and an insertion moves its entries within a microsecond or two. Tables that grow with
//! the bindings of a home agent, the stations on a road or the contexts of a host use `BTreeMap`.

mod agenda;
mod map;
mod set;

pub use agenda::SmallTimerQueue;
pub use map::{Entry, VecMap};
pub use set::VecSet;
