//! Reports of the facilities layer.

reports! {
    /// A report.
    FacilitiesReport {
        /// A DENM with a new or changed event was received.
        #[display("DENM of station {station}, event {sequence}: cause code {cause}, sub cause code {sub_cause}")]
        DenmReceived as "event_heard" { station: u32, sequence: u16, cause: u8, sub_cause: u8 },
        /// An event was cancelled or negated.
        #[display("event {sequence} of station {station} terminated")]
        DenmTerminated as "event_over" { station: u32, sequence: u16 },
        /// A SAM with new or changed services was received; `routing` is true if it offers Internet access.
        #[display(
            "SAM of station {station}: {services} services{}",
            if *routing { ", with Internet access" } else { "" }
        )]
        SamReceived as "services_heard" { station: u32, services: usize, routing: bool },
    }
}
