//! What this station and others serve, as a table.

use crate::config::duration::format_duration;
use crate::control::NodeState;
use crate::render::table::Table;
use roam6_proto::contract::config::facilities::RoutingAdvertisement;
use roam6_proto::contract::view::{AnnouncementView, ServiceView};

/// Announcement by announcement: its services, then its Internet access.
pub(crate) fn table(state: &NodeState) -> Table {
    let mut table = Table::new(&["STATION", "ADDRESS", "NAME", "SERVES", "AT", "AGE"]);
    for row in &state.view.services {
        for (what, at) in row.services.iter().map(service_row).chain(row.routing.iter().map(routing_row)) {
            let mid = row.mid.map_or_else(|| "own".to_owned(), |mid| mid.to_string());
            let name = row.name.clone().unwrap_or_default();
            table.push(vec![row.station.to_string(), mid, name, what, at, age(row)]);
        }
    }
    table
}

fn age(row: &AnnouncementView) -> String {
    row.age.map(format_duration).unwrap_or_default()
}

fn service_row(service: &ServiceView) -> (String, String) {
    let context = service.context.as_ref().map(|context| format!(" ({context})")).unwrap_or_default();
    let what = format!("application {}{context}", service.application);
    let place = match (service.address, service.port) {
        (Some(address), Some(port)) => format!("[{address}]:{port}"),
        (Some(address), None) => address.to_string(),
        (None, Some(port)) => format!("port {port}"),
        (None, None) => String::new(),
    };
    let channel = service.channel.map(|channel| format!("channel {channel}"));
    let at: Vec<String> = Some(place).filter(|place| !place.is_empty()).into_iter().chain(channel).collect();
    (what, at.join(", "))
}

fn routing_row(way: &RoutingAdvertisement) -> (String, String) {
    let dns: String = way.dns.iter().map(|dns| format!(", dns {dns}")).collect();
    let lifetime = format_duration(way.lifetime);
    ("the Internet".to_owned(), format!("{} by {} for {lifetime}{dns}", way.prefix, way.gateway))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::table::Paint;
    use core::time::Duration;
    use roam6_wire::LinkAddress;

    #[test]
    fn each_announced_service_has_a_row() {
        let mut state = NodeState::default();
        let service = ServiceView {
            application: 540_801,
            channel: None,
            address: Some("2001:db8::1".parse().unwrap()),
            port: Some(80),
            context: None,
        };
        let other = ServiceView { application: 36, channel: Some(180), address: None, ..service.clone() };
        let routing = RoutingAdvertisement {
            prefix: "2001:db8:9::/64".parse().unwrap(),
            gateway: "fe80::1".parse().unwrap(),
            dns: vec!["2001:db8::53".parse().unwrap()],
            lifetime: Duration::from_secs(1800),
        };
        state.view.services.push(AnnouncementView {
            station: 7,
            mid: Some(LinkAddress([2, 0, 0, 0, 0, 1])),
            name: Some("A9".to_owned()),
            content: 1,
            services: vec![service, ServiceView { context: Some("toll".to_owned()), ..other }],
            routing: Some(routing),
            interval: None,
            age: Some(Duration::from_millis(400)),
        });
        let text = table(&state).render(Paint::Plain);
        let expected = "\
STATION  ADDRESS            NAME  SERVES                 AT                                                    AGE
7        02:00:00:00:00:01  A9    application 540801     [2001:db8::1]:80                                      400ms
7        02:00:00:00:00:01  A9    application 36 (toll)  port 80, channel 180                                  400ms
7        02:00:00:00:00:01  A9    the Internet           2001:db8:9::/64 by fe80::1 for 30m, dns 2001:db8::53  400ms
";
        assert_eq!(text, expected);
    }
}
