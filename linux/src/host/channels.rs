//! How busy the channels of radios are: queries of the engines, and the readings of the thread that measures.

use super::Host;
use super::event_loop::{CHANNELS, Interest, epoll_event};
use crate::channel_meter::{ChannelMeter, not_measured};
use crate::error::{Context, Error};
use roam6_proto::{Input, LinkId};

impl Host {
    /// Has the channel of an interface measured; the first query starts the thread that measures.
    pub(super) fn measure_channel(&mut self, link: LinkId) {
        if self.channel_meter.is_none() {
            match self.start_channel_meter() {
                Ok(meter) => self.channel_meter = Some(meter),
                Err(error) => self.executor.notice(error),
            }
        }
        match &self.channel_meter {
            Some(meter) => meter.query(link),
            None => self.queue_input(Input::ChannelUse(not_measured(link))),
        }
    }

    fn start_channel_meter(&self) -> Result<ChannelMeter, Error> {
        let meter = ChannelMeter::start()?;
        let read = Interest { read: true, write: false };
        self.epoll.add(&meter, epoll_event(CHANNELS, read)).context("epoll")?;
        Ok(meter)
    }

    /// The thread has measured.
    pub(super) fn take_channel_readings(&mut self) {
        let readings = self.channel_meter.as_ref().map(ChannelMeter::take).unwrap_or_default();
        readings.into_iter().for_each(|reading| self.queue_input(Input::ChannelUse(reading)));
    }
}
