//! Reports of GeoNetworking.

use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::Coordinates;

reports! {
    /// A report.
    GeoReport {
        /// An echo reply was received; `arrived` is false if the hop limit of the request expired at the station,
        /// `again` is true for a duplicate.
        #[display("echo reply of {mid}, {kind} at {place}, after {} us", rtt.as_micros())]
        EchoReply as "echo" {
            identifier: u32,
            sequence: u32,
            mid: LinkAddress,
            kind: String,
            place: Coordinates,
            hops: u8,
            octets: usize,
            rtt: Duration,
            arrived: bool,
            again: bool,
        },
        /// An echo request was not sent.
        #[display("echo request not sent: {why}")]
        EchoNotSent as "echo_refused" { identifier: u32, sequence: u32, why: String },
        /// The station has another address and certificate; `dropped` packets of the former were still buffered.
        #[display("pseudonym changed: address {mid}, certificate {certificate}")]
        PseudonymChanged as "pseudonym_changed" { mid: LinkAddress, certificate: String, dropped: usize },
        /// Congestion control of a radio is in another state; `busy` is the channel busy ratio in per mille, `interval` the
        /// least time between two frames.
        #[display("{link}: channel busy for {}.{} %, congestion control {state}, {} ms between frames", busy / 10, busy % 10, interval.as_millis())]
        CongestionChanged { link: String, busy: u16, state: String, interval: Duration },
    }
}
