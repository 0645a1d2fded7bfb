//! Tests of the public codecs: golden octets, round trips, mutated input, the fuzz corpus, cross-checks by tshark.

#[cfg(test)]
mod dhcp6;
#[cfg(test)]
mod dissector;
#[cfg(test)]
mod esp;
#[cfg(test)]
mod geo;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod ip4;
#[cfg(feature = "its")]
#[cfg(test)]
mod its;
#[cfg(feature = "its")]
#[cfg(test)]
mod its_received;
#[cfg(test)]
mod key_exchange;
#[cfg(test)]
mod mutation;
#[cfg(feature = "geo-security")]
#[cfg(test)]
mod provisioning;
#[cfg(test)]
mod round_trip;
#[cfg(feature = "its")]
#[cfg(test)]
mod saem;
#[cfg(test)]
mod samples;
#[cfg(feature = "geo-security")]
#[cfg(test)]
mod security;
#[cfg(test)]
mod shim6;
#[cfg(feature = "geo-security")]
#[cfg(test)]
mod trust_list;
mod udp6;
mod wireguard;
