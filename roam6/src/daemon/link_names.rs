//! Interface names for log lines and events: engines know interfaces by index.

use roam6_proto::base::vec_map::VecMap;
use roam6_proto::{Input, LinkId};

/// Most names kept.
const MAX_NAMES: usize = 4096;
/// The text in front of the index when [`LinkId`] is displayed.
const LINK_PREFIX: &str = "link ";

/// Interface names by index, from the kernel's link events.
#[derive(Debug, Default)]
pub(crate) struct LinkNames(VecMap<LinkId, String>);

impl LinkNames {
    /// Learns the name from a link event. The name of a removed interface is kept, because reports about it follow.
    pub(crate) fn observe(&mut self, input: &Input) {
        if let Input::Link(event) = input
            && (self.0.len() < MAX_NAMES || self.0.get(&event.link).is_some())
        {
            self.0.insert(event.link, event.name.clone());
        }
    }

    /// The name of an interface, if known.
    pub(crate) fn find(&self, link: LinkId) -> Option<&str> {
        self.0.get(&link).map(String::as_str)
    }

    /// Replaces interface indices in `text` by names.
    pub(crate) fn name_links(&self, text: &str) -> String {
        let mut named = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(LINK_PREFIX) {
            named.push_str(before);
            let digits = after.len() - after.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
            let (number, others) = after.split_at(digits);
            let is_word = !before.ends_with(|letter: char| letter.is_ascii_alphanumeric());
            let name = number.parse().ok().filter(|_| is_word).and_then(|number| self.find(LinkId(number)));
            match name {
                Some(name) => named.push_str(name),
                None => {
                    named.push_str(LINK_PREFIX);
                    named.push_str(number);
                }
            }
            rest = others;
        }
        named.push_str(rest);
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::contract::report::LinkReport;
    use roam6_proto::{LinkEvent, Report};

    fn names() -> LinkNames {
        let mut names = LinkNames::default();
        let event = LinkEvent { link: LinkId(20), name: "wlan0".to_owned(), address: None, up: true, mtu: 1500 };
        names.observe(&Input::Link(event));
        names
    }

    #[test]
    fn a_log_line_names_the_interface() {
        let report = Report::Link(LinkReport::RouterSolicitationSent { link: LinkId(20) });
        assert_eq!(names().name_links(&report.to_string()), "wlan0: router solicitation sent");
        assert_eq!(names().name_links("packet not sent by link 20: no route"), "packet not sent by wlan0: no route");
    }

    #[test]
    fn unknown_numbers_and_other_words_stay() {
        for text in ["link 2: up", "link 200", "a link down", "uplink 20", "link ", "link 99999999999999"] {
            assert_eq!(names().name_links(text), text);
        }
    }
}
