// Shows the testbed as it is every quarter of a second, and tells it where the reader puts the vehicle's uplinks.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const PLACES = ["home", "fn1", "fn2"];
const NAMES = { home: "home", fn1: "FN1", fn2: "FN2" };
const ZONES = { home: [640, 85], fn1: [640, 235], fn2: [640, 385] };
const ROUTERS = { home: [400, 85], fn1: [400, 235], fn2: [400, 385] };
const CORE = [235, 235], PEER = [80, 235], RADIUS = 68;
const NOWHERE = [[820, 160], [820, 310]];
const EVERY = 250;

const byId = (id) => document.getElementById(id);

function make(parent, kind, attributes, text) {
  const node = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return parent.appendChild(node);
}

function host(name, what, [x, y]) {
  const group = byId("hosts");
  make(group, "rect", { class: "host", x: x - 44, y: y - 22, width: 88, height: 44, rx: 8 });
  make(group, "text", { x, y: y - 1 }, name);
  make(group, "text", { x, y: y + 14, class: "small" }, what);
}

function wire([x1, y1], [x2, y2]) {
  return make(byId("wires"), "path", { class: "wire", d: `M${x1} ${y1}L${x2} ${y2}` });
}

const wires = { peer: wire(PEER, CORE), out: {}, link: {} };
const zones = {};
for (const place of PLACES) {
  const [x, y] = ZONES[place];
  wires.out[place] = wire(CORE, ROUTERS[place]);
  wires.link[place] = wire(ROUTERS[place], [x - RADIUS, y]);
  zones[place] = make(byId("zones"), "circle", { class: "zone", cx: x, cy: y, r: RADIUS });
  make(byId("zones"), "text", { x, y: y - RADIUS + 20 }, NAMES[place]);
}
host("CN", "correspondent", PEER);
host("core", "backbone", CORE);
host("HA", "home agent", ROUTERS.home);
host("AR1", "router of FN1", ROUTERS.fn1);
host("AR2", "router of FN2", ROUTERS.fn2);

const uplinks = [0, 1].map((number) => {
  const group = make(byId("uplinks"), "g", { class: "uplink", tabindex: -1 });
  if (number === 0) make(group, "rect", { class: "body", x: -40, y: -20, width: 80, height: 40, rx: 10 });
  else make(group, "circle", { class: "second", r: 20 });
  make(group, "text", { y: 5 }, `up${number}`);
  group.addEventListener("pointerdown", (event) => hold(event, number));
  return group;
});

// Where an uplink rests: the second stands beside the first.
function rest(number, place) {
  const [x, y] = place ? ZONES[place] : NOWHERE[number];
  return number === 0 ? [x - 8, y + 8] : [x + 34, y + 34];
}

let held = null;

function point(event) {
  const map = byId("map");
  const spot = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
  return [spot.x, spot.y];
}

function hold(event, number) {
  held = { number, at: point(event) };
  uplinks[number].classList.add("held");
  uplinks[number].setPointerCapture(event.pointerId);
}

byId("uplinks").addEventListener("pointermove", (event) => {
  if (!held) return;
  held.at = point(event);
  put(held.number, held.at);
});

byId("uplinks").addEventListener("pointerup", () => {
  if (!held) return;
  const near = ([x, y]) => Math.hypot(x - held.at[0], y - held.at[1]) < RADIUS * 1.2;
  const place = PLACES.find((place) => near(ZONES[place])) ?? null;
  uplinks[held.number].classList.remove("held");
  send({ do: "plug", uplink: `up${held.number}`, to: place });
  held = null;
});

function put(number, [x, y]) {
  uplinks[number].setAttribute("transform", `translate(${x} ${y})`);
}

async function send(what) {
  const answer = await fetch("/command", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(what) });
  if (!answer.ok) byId("word").textContent = await answer.text();
}

for (const select of document.querySelectorAll("select")) {
  for (const place of [...PLACES, ""]) select.add(new Option(place ? NAMES[place] : "no network", place));
  select.addEventListener("change", () => send({ do: "plug", uplink: `up${select.dataset.uplink}`, to: select.value || null }));
}
const cuts = {};
for (const place of PLACES) {
  const label = byId("cuts").appendChild(document.createElement("label"));
  cuts[place] = label.appendChild(document.createElement("input"));
  cuts[place].type = "checkbox";
  label.append(` ${NAMES[place]} drops all packets `);
  cuts[place].addEventListener("change", () => send({ do: "cut", place, cut: cuts[place].checked }));
}

let before = null;

// Packets a second over a link since the last look.
function rate(now, was, seconds, key) {
  return was ? (now[key] - was[key]) / seconds : 0;
}

function paint(path, packets, tunnelled, isCut) {
  path.classList.toggle("busy", packets > 20);
  path.classList.toggle("tunnel", tunnelled > 10);
  path.classList.toggle("cut", isCut);
  path.style.strokeWidth = 2 + Math.min(8, Math.log2(1 + packets / 50));
}

function drawMap(state) {
  const seconds = before ? (state.now - before.now) / 1e6 : 1;
  let through = 0;
  PLACES.forEach((place, index) => {
    for (const [path, list] of [[wires.link[place], "links"], [wires.out[place], "ways_out"]]) {
      const packets = rate(state[list][index], before?.[list][index], seconds, "packets");
      const tunnelled = rate(state[list][index], before?.[list][index], seconds, "tunnelled");
      paint(path, packets, tunnelled, list === "ways_out" && state.cut.includes(place));
      through += packets;
    }
    zones[place].classList.toggle("cut", state.cut.includes(place));
    cuts[place].checked = state.cut.includes(place);
  });
  paint(wires.peer, through, 0, false);
  state.at.forEach((place, number) => {
    if (held?.number !== number) put(number, rest(number, place));
    const select = document.querySelector(`select[data-uplink="${number}"]`);
    if (document.activeElement !== select) select.value = place ?? "";
  });
}

function drawTimeline([out, inside]) {
  const width = 900 / out.length;
  const bars = (counts, name, floor, sign) => counts.map((count, index) => {
    const height = Math.min(60, count * 6);
    const y = sign > 0 ? floor - height : floor;
    return `<rect class="${name}" x="${(index * width).toFixed(1)}" y="${y}" width="${(width * 0.9).toFixed(1)}" height="${height}"/>`;
  }).join("");
  byId("timeline").innerHTML = bars(out, "out", 64, 1) + bars(inside, "in", 66, -1);
}

function cell(row, text, name) {
  const td = row.appendChild(document.createElement("td"));
  td.textContent = text ?? "";
  if (name) td.className = name;
}

function drawMoves(moves) {
  if (!moves.length) return;
  byId("moves").replaceChildren(...moves.map((move) => {
    const row = document.createElement("tr");
    cell(row, move.move ?? move.failed);
    for (const key of ["gap_fine_ms", "link_up_to_ra_ms", "ra_to_bu_ms", "bu_to_ba_ms", "ba_to_packet_ms"]) cell(row, move[key]?.toFixed(1));
    cell(row, move.lost);
    if (move.tcp_lives !== undefined) cell(row, move.tcp_lives ? "continues" : "BROKEN", move.tcp_lives ? "lives" : "dead");
    return row;
  }));
}

function drawLines(lines, now) {
  byId("lines").replaceChildren(...lines.map((line) => {
    const item = document.createElement("li");
    const at = document.createElement("b");
    at.textContent = `${((line.at - now) / 1e6).toFixed(1)} s ${line.host}`;
    item.append(at, line.text);
    return item;
  }));
}

function say(state) {
  const bound = state.care_of.length ? `bound to ${state.care_of.join(" and ")}` : "at home, no binding";
  const carried = state.transferred.map((octets) => (octets / 1e6).toFixed(1)).join(" and ");
  byId("word").textContent = `${state.home_address} is ${bound}; TCP has carried ${carried} MB${state.busy ? "; measuring a handover" : ""}`;
}

async function look() {
  try {
    const state = await (await fetch("/state")).json();
    drawMap(state);
    drawTimeline(state.arrived);
    drawMoves(state.moves);
    drawLines(state.lines, state.now);
    say(state);
    before = state;
  } catch (error) {
    byId("word").textContent = `the testbed has ended (${error.message})`;
  }
  setTimeout(look, EVERY);
}
look();
