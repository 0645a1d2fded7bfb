//! Replaces the facilities if the feature `facilities` is off.

use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::contract::config::facilities::{Announcement, DenmRequest, FacilitiesConfig};
use crate::contract::report::Report;
use crate::contract::view::View;
use crate::geo::ego::EgoState;
use crate::geo::{Delivery, PacketRequest};
use roam6_wire::geo::ItsStationType;

/// Nothing.
#[derive(Debug)]
pub struct Facilities;

impl Facilities {
    /// Nothing.
    pub fn new(_config: FacilitiesConfig, _kind: ItsStationType, _entropy: Entropy) -> Facilities {
        Facilities
    }

    /// Nothing is to be sent.
    pub fn next_message(&mut self, _now: Time, _own: Option<&EgoState>) -> Option<PacketRequest> {
        None
    }

    /// Ignores the message.
    pub fn receive(&mut self, _now: Time, _delivery: &Delivery<'_>, _its_time: u64) -> Option<Report> {
        None
    }

    /// Refuses the request.
    pub fn execute(
        &mut self,
        _now: Time,
        _order: &DenmRequest,
        _own: Option<&EgoState>,
    ) -> Result<PacketRequest, String> {
        Err("this roam6 was built without facilities".to_owned())
    }

    /// Nothing is announced.
    pub fn announce(&mut self, _announcement: Option<Announcement>) {}

    /// There are none.
    pub fn has_own_events(&self) -> bool {
        false
    }

    /// There is none.
    pub fn change_station_id(&mut self) {}

    /// Nothing is to be done.
    pub fn deadline(&self, _own: Option<&EgoState>) -> Option<Time> {
        None
    }

    /// Nothing is to be seen.
    pub fn view(&self, _now: Time, _view: &mut View) {}
}
