// GeoNetworking stations around this one, which is the first: a map without tiles, north up, with events, areas and marks of trust,
// and tables of the same.

import { html, svg } from "/chart.js";

const WIDTH = 520, HEIGHT = 340, MARGIN = 30, MOST = 50;
const byId = (id) => document.getElementById(id);
const cell = (text, className = "") => html("td", { className }, text);
const degrees = (place) => `${(place.latitude / 1e7).toFixed(5)} ${(place.longitude / 1e7).toFixed(5)}`;

/** Cause codes (TS 102 894-2 §A.10). */
const CAUSES = {
  1: "traffic condition", 2: "accident", 3: "roadworks", 5: "impassability", 6: "adhesion", 7: "aquaplaning", 9: "hazardous surface",
  10: "obstacle", 11: "animal on the road", 12: "human on the road", 14: "wrong-way driving", 15: "rescue work", 17: "extreme weather",
  18: "visibility", 19: "precipitation", 26: "slow vehicle", 27: "end of a queue", 91: "breakdown", 92: "post-crash", 93: "human problem",
  94: "stationary vehicle", 95: "emergency vehicle", 96: "dangerous curve", 97: "collision risk", 98: "signal violation", 99: "dangerous situation",
};
const cause = (event) => `${CAUSES[event.cause] ?? `cause ${event.cause}`}${event.sub_cause ? ` (${event.sub_cause})` : ""}`;

/** How far a station is trusted: a class and words; of one that signs nothing, none. */
const TRUST = { verified: ["good", "verified"], unverified: ["standby", "signed, not verified"] };

/** Metres to the east and to the north of `own`, on a plane: enough for what a radio reaches. */
function plane(own) {
  const parallel = 111320 * Math.cos(own.latitude / 1e7 * Math.PI / 180);
  return (place) => [(place.longitude - own.longitude) / 1e7 * parallel, (place.latitude - own.latitude) / 1e7 * 110574];
}

/** The outline of an area (EN 302 931); its angle is that of a, clockwise from north. */
function outline(area, point, scale, className, words) {
  const [x, y] = point(area.center), [a, b] = [area.a * scale, (area.b || area.a) * scale];
  const turn = `rotate(${area.angle - 90} ${x} ${y})`;
  const shape = area.shape === "rectangle" ? svg("rect", { x: x - a, y: y - b, width: 2 * a, height: 2 * b, transform: turn, class: className })
    : svg("ellipse", { cx: x, cy: y, rx: a, ry: area.shape === "circle" ? a : b, transform: turn, class: className });
  shape.append(svg("title", {}, words));
  return shape;
}

/** A link-layer address. */
const address = (octets) => octets.map((octet) => octet.toString(16).padStart(2, "0")).join(":");

/** Words above or below a point, towards the side with more room. */
function label([x, y], words, className = "") {
  const isRight = x > WIDTH * 0.6;
  return svg("text", { class: className, x: isRight ? x + 8 : x - 8, y, "text-anchor": isRight ? "end" : "start" }, words);
}

/** A station: an arrow in the direction of travel, or a disc if it stands; a ring around it says that it is signed. */
function mark(station, isOwn, [x, y]) {
  const [kind, words] = TRUST[station.trust] ?? [];
  const moves = Math.abs(station.speed) >= 50;
  const body = moves ? svg("path", { d: "M0 -9 L6 7 L0 3 L-6 7 Z", transform: `translate(${x} ${y}) rotate(${station.heading / 10})` })
    : svg("circle", { cx: x, cy: y, r: 5 });
  body.setAttribute("class", isOwn ? "station own" : "station");
  const group = svg("g", {}, body);
  if (kind) group.append(svg("circle", { cx: x, cy: y, r: 11, class: `trust ${kind}` }));
  const name = isOwn ? "this station" : address(station.mid);
  body.append(svg("title", {}, `${name}, ${station.kind.replaceAll("_", " ")}${words ? `, ${words}` : ""}`));
  group.append(label([x, y + 25], name, "dim"));
  return group;
}

function tables(stations, events) {
  byId("stations").replaceChildren(...stations.map((station) => {
    const [kind, words] = TRUST[station.trust] ?? ["", "-"];
    return html("tr", {}, html("th", { scope: "row" }, address(station.mid)), cell(station.kind.replaceAll("_", " ")), cell(station.state.replaceAll("_", " ")),
      cell(words, kind), cell(degrees(station.place)), cell(station.distance === null ? "-" : `${station.distance} m`), cell(`${(station.speed / 100).toFixed(1)} m/s`));
  }));
  byId("warnings-table").hidden = events.length === 0;
  byId("warnings").replaceChildren(...events.map((event) => html("tr", {}, html("th", { scope: "row" }, cause(event)), cell(degrees(event.place)),
    cell(`${event.area.shape}, ${event.area.a}${event.area.b ? ` by ${event.area.b}` : ""} m`), cell(`${Math.round(event.remaining.secs)} s`))));
}

/** Draws stations of the location table, events of the LDM, and areas of IPv6 destinations. */
export function drawStations(allStations, allEvents, allAreas) {
  byId("stations-section").hidden = allStations.length === 0;
  const [stations, events, areas] = [allStations, allEvents, allAreas].map((all) => all.slice(0, MOST));
  tables(stations, events);
  if (!stations.length) return;
  const metres = plane(stations[0].place);
  const places = [...stations, ...events].map(({ place }) => metres(place));
  const reach = Math.max(50, ...places.map(([east, north]) => Math.max(Math.abs(east) * HEIGHT / WIDTH, Math.abs(north))));
  const scale = (HEIGHT / 2 - MARGIN) / reach;
  const point = (place) => { const [east, north] = metres(place); return [WIDTH / 2 + east * scale, HEIGHT / 2 - north * scale]; };
  const says = `${stations.length} stations, ${events.length} events and ${areas.length} areas within ${Math.round(reach)} m`;
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": says });
  for (const share of [0.5, 1]) {
    const radius = reach * share * scale;
    picture.append(svg("circle", { class: "grid", fill: "none", cx: WIDTH / 2, cy: HEIGHT / 2, r: radius }),
      svg("text", { class: "dim", x: WIDTH / 2 + 4, y: HEIGHT / 2 - radius - 3 }, `${Math.round(reach * share)} m`));
  }
  picture.append(svg("text", { class: "dim", x: WIDTH - 18, y: 16 }, "N"), svg("path", { class: "north", d: `M${WIDTH - 13} 34 V20 M${WIDTH - 17} 25 L${WIDTH - 13} 20 L${WIDTH - 9} 25` }));
  for (const one of areas) picture.append(outline(one.area, point, scale, "area", `destination area of ${one.address}`));
  for (const event of events) picture.append(outline(event.area, point, scale, "area warned", `destination area: ${cause(event)}`));
  for (const event of events) {
    const [x, y] = point(event.place);
    picture.append(svg("path", { class: "warning", d: `M${x} ${y - 8} L${x + 8} ${y + 6} H${x - 8} Z` }), label([x, y - 12], cause(event)));
  }
  stations.forEach((station, index) => picture.append(mark(station, index === 0, point(station.place))));
  byId("stations-map").replaceChildren(picture);
}
