//! Tests of the codecs from outside: golden octets, round trips, hostile bytes, the committed corpus, another decoder.

#[cfg(test)]
mod dhcp6;
#[cfg(test)]
mod dissector;
#[cfg(test)]
mod geo;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod ip4;
#[cfg(feature = "its")]
#[cfg(test)]
mod its;
#[cfg(test)]
mod mutation;
#[cfg(test)]
mod round_trip;
#[cfg(feature = "its")]
#[cfg(test)]
mod saem;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod shim6;
