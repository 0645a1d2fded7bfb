//! Tests of the codecs from outside: golden octets, round trips, hostile bytes, the committed corpus, another decoder.

#[cfg(test)]
mod golden;
#[cfg(test)]
mod samples;
