//! The picture of docs/encryption.md: node, mobile router, two uplinks, home agent, and which segments are encrypted.

use super::chart::{INK, STYLE, SVG_ATTRIBUTES, text};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 250.0;
/// Segments that others may read, and those that are encrypted.
const PLAIN: &str = "#9aa3ad";
const ENCRYPTED: &str = "#3b8f4f";
/// The middles of the hosts, from left to right, and half of the size of a box.
const HOSTS: [(&str, f64); 4] =
    [("node", 70.0), ("mobile router", 260.0), ("home agent", 640.0), ("correspondent", 830.0)];
const HALF: (f64, f64) = (58.0, 20.0);
/// The height of the hosts, and those of the uplinks.
const MIDDLE: f64 = 130.0;
const UPLINKS: [(&str, f64); 2] = [("uplink 1", 75.0), ("uplink 2", 185.0)];

/// The picture, as SVG.
pub(super) fn encryption() -> String {
    let mut svg = format!(
        "<svg class=\"figure\" {SVG_ATTRIBUTES} width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">\n\
         <title>Data is encrypted between mobile router and home agent, on each uplink by a WireGuard session of its own</title>\n\
         <style>{STYLE}</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let [node, router, agent, correspondent] = HOSTS.map(|(_, x)| x);
    for (from, to) in [(node, router), (agent, correspondent)] {
        svg += &line((from + HALF.0, MIDDLE), (to - HALF.0, MIDDLE), PLAIN, 3);
        svg += &centred(((from + to) / 2.0, MIDDLE - 10.0), "plain");
    }
    for (name, y) in UPLINKS {
        let (left, right) = (router + HALF.0 + 50.0, agent - HALF.0 - 50.0);
        svg += &line((router + HALF.0, MIDDLE), (left, y), ENCRYPTED, 7);
        svg += &line((left, y), (right, y), ENCRYPTED, 7);
        svg += &line((right, y), (agent - HALF.0, MIDDLE), ENCRYPTED, 7);
        svg += &centred(((left + right) / 2.0, y - 12.0), &format!("{name}: WireGuard in UDP"));
    }
    svg += &centred(((router + agent) / 2.0, MIDDLE + 4.0), "visited links, Internet");
    for (name, x) in HOSTS {
        svg += &format!(
            "<rect class=\"ink ground\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"#ffffff\" stroke=\"{INK}\"/>\n",
            x - HALF.0,
            MIDDLE - HALF.1,
            2.0 * HALF.0,
            2.0 * HALF.1
        );
        svg += &centred((x, MIDDLE + 4.0), name);
    }
    for (x, colour, width, name) in [(240.0, ENCRYPTED, 7, "data, encrypted"), (450.0, PLAIN, 3, "data, as it is")] {
        svg += &line((x, 230.0), (x + 40.0, 230.0), colour, width);
        svg += &text((x + 50.0, 234.0), "", name);
    }
    svg + "</svg>\n"
}

fn line(from: (f64, f64), to: (f64, f64), colour: &str, width: u8) -> String {
    let ((x, y), (to_x, to_y)) = (from, to);
    format!(
        "<path d=\"M{x} {y}L{to_x} {to_y}\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linecap=\"round\"/>\n"
    )
}

fn centred(at: (f64, f64), content: &str) -> String {
    text(at, "text-anchor=\"middle\"", content)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/encryption.svg");

    #[test]
    fn picture_of_the_page_is_the_one_that_is_drawn() {
        if std::env::var_os("ROAM6_BLESS").is_some() {
            std::fs::write(FILE, encryption()).unwrap();
        }
        let kept = std::fs::read_to_string(FILE).unwrap_or_default();
        assert!(kept == encryption(), "docs/encryption.svg differs; run: roam6-lab report --draw --pictures docs");
    }
}
