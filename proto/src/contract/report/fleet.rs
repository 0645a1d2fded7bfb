//! Reports of a member of a fleet.

use crate::contract::fleet::{MemberState, StoreFault};
use core::time::Duration;
use roam6_wire::HomeAddress;

reports! {
    /// A report.
    FleetReport {
        /// This member changed its state.
        #[display("this member is {to}, was {from}: {why}")]
        StateChanged as "fleet_state" { from: MemberState, to: MemberState, why: String },
        /// Another member is there.
        #[display("member {member} is there")]
        MemberJoined { member: String },
        /// Another member is gone: its lease has expired.
        #[display("member {member} is gone")]
        MemberLost { member: String },
        /// The store does not answer.
        #[display("the store does not answer: {why}")]
        StoreLost { why: String },
        /// The store answers again.
        #[display("the store answers, after {}s", after.as_secs())]
        StoreBack { after: Duration },
        /// The store cannot be used, or a part of it.
        #[display("{fault}")]
        StoreFault { fault: StoreFault },
        /// The clock of another member differs from that of this one.
        #[display("the clock of {member} differs by {by_micros} microseconds: both need NTP")]
        ClockSkewed { member: String, by_micros: i64 },
        /// A record of the store is not served here, and why.
        #[display("{home_address}: the record of the store is not served: {why}")]
        RecordNotServed { home_address: HomeAddress, why: String },
    }
}
