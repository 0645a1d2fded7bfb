//! Maps and sets of which few are kept, in order: their entries lie sorted in one vector.
//!
//! `std`'s ordered maps put in and take out quickly however many entries they have, and pay for it with some kilobytes of
//! code for every key and value there are maps of: a tenth of the program for routers. Most of what an engine keeps is few
//! by nature (links, uplinks, routers of a link) or by a bound of some hundreds that it sets itself; there a vector is
//! searched as quickly and moved in a microsecond or two. What grows with the users of a home agent, the stations on a road
//! or the contexts of a host belongs into `std`'s.

mod agenda;
mod map;
mod set;

pub use agenda::Agenda;
pub use map::{Entry, Map};
pub use set::Set;
