// The status page: asks for the state each two seconds while it is seen, and draws it. Whatever came from the network is put
// into the page as text.

import { chart, clock, html, svg } from "/chart.js";
import { drawStations } from "/stations.js";

const POLL = 2000, HISTORY_POLL = 10000, MAX_EVENTS = 200;
const byId = (id) => document.getElementById(id);
const seen = { events: [], next: 0, chosen: null, paused: false, plots: "", plotted: 0 };

async function get(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(10000) });
  // The session has ended, or the server has been restarted: the form for the password comes.
  if (answer.status === 401) location.reload();
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

const seconds = (duration) => duration.secs + duration.nanos / 1e9;
const unit = (value, units, step) => {
  let index = 0;
  while (value >= step && index < units.length - 1) { value /= step; index += 1; }
  return `${value >= 100 || index === 0 ? Math.round(value) : value.toPrecision(2)} ${units[index]}`;
};
const octets = (value) => unit(value, ["B", "kB", "MB", "GB", "TB"], 1000);
const rate = (value) => unit(value, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"], 1000);
const milliseconds = (value) => `${value >= 10 || value === 0 ? Math.round(value) : value.toPrecision(2)} ms`;
/** IPv4-mapped addresses as IPv4. */
const plain = (address) => address?.replace(/^::ffff:(?=\d+\.)/, "");
const age = (duration) => {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, name] = parts.find(([size]) => duration >= size) ?? [1, "s"];
  return `${Math.floor(duration / size)} ${name}`;
};

/** How an uplink is: a class, and words. */
function standing(link, tunnels) {
  if (!link.up) return ["bad", "no carrier"];
  if (link.last_error) return ["bad", link.state.replaceAll("_", " ")];
  const paths = tunnels.filter((tunnel) => link.addresses.includes(tunnel.local));
  if (paths.some((path) => path.state === "down")) return ["bad", "no answer"];
  if (["home", "visited"].includes(link.state)) {
    return tunnels.length && paths.every((path) => path.weight === 0) ? ["standby", "standby"] : ["good", link.state === "home" ? "at home" : "in use"];
  }
  // An interface of the mobile network, or of a host.
  if (["advertising", "up"].includes(link.state)) return ["", link.state];
  return ["standby", link.state.replaceAll("_", " ")];
}

/** Replaces the rows of a table. */
const fill = (id, rows) => byId(id).replaceChildren(...rows);
const cell = (text, className = "") => html("td", { className }, text);

function drawLinks(links, tunnels) {
  fill("links", links.map((link) => {
    const [kind, words] = standing(link, tunnels);
    const since = link.changed ? ` for ${age(seconds(link.changed))}` : "";
    const state = html("td", { className: kind }, words, link.transport === "udp" ? " (UDP)" : "", since);
    const notes = [link.last_error && html("p", { className: "fault" }, link.last_error), ...(link.hints ?? []).map((hint) => html("p", { className: "hint" }, hint))];
    state.append(...notes.filter(Boolean));
    const quality = link.quality;
    const row = html("tr", { id: `link-${link.name}` }, html("th", { scope: "row" }, link.name), state,
      cell(quality ? milliseconds(seconds(quality.rtt) * 1000) : "-"), cell(quality ? `${(quality.loss_permille / 10).toFixed(quality.loss_permille ? 1 : 0)} %` : "-"),
      cell(link.usage ? octets(link.usage.tx) : "-"), cell(link.usage ? octets(link.usage.rx) : "-"), cell(link.addresses.map(plain).join(" "), "wrap"));
    if (link.name === seen.chosen) row.className = "chosen";
    return row;
  }));
}

/** Uplinks as lines between this node and the home agent, or the nodes that use it. */
function drawMap(links, tunnels, bindings) {
  const uplinks = links.filter((link) => link.role === "uplink");
  const rows = uplinks.length ? uplinks : links;
  const height = Math.max(110, rows.length * 58 + 20), middle = height / 2;
  const router = bindings.find((binding) => binding.role === "mobile_router");
  const far = router ? "home agent" : "network", near = router ? "this router" : "this node";
  const picture = svg("svg", { viewBox: `0 0 520 ${height}`, role: "group", "aria-label": `Paths between ${near} and ${far}` });
  rows.forEach((link, index) => {
    const [kind, words] = standing(link, tunnels);
    const y = rows.length === 1 ? middle : 34 + index * ((height - 68) / (rows.length - 1));
    const trip = link.quality ? `, ${milliseconds(seconds(link.quality.rtt) * 1000)}` : "";
    const group = svg("g", { class: kind, role: "button", tabindex: "0", "aria-label": `${link.name}: ${words}${trip}; shows its row` },
      svg("path", { class: `path ${kind}`, d: `M105 ${middle} C180 ${y} 190 ${y} 260 ${y} S340 ${y} 415 ${middle}` }),
      svg("text", { x: 260, y: y - 9, "text-anchor": "middle" }, `${link.name}: ${words}${trip}`));
    const choose = () => { seen.chosen = link.name; markChosen(true); };
    group.addEventListener("click", choose);
    group.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } });
    picture.append(group);
  });
  for (const [x, words, detail] of [[55, near, router?.home_address ?? ""], [465, far, router?.home_agent ?? ""]]) {
    picture.append(svg("rect", { class: "node", x: x - 50, y: middle - 20, width: 100, height: 40, rx: 8 }),
      svg("text", { x, y: middle + 4, "text-anchor": "middle" }, words), svg("text", { class: "dim", x, y: middle + 38, "text-anchor": "middle" }, detail));
  }
  const focused = document.activeElement?.closest?.("#map g")?.getAttribute("aria-label")?.split(":")[0];
  byId("map").replaceChildren(picture);
  if (focused) [...picture.querySelectorAll("g")].find((group) => group.getAttribute("aria-label").startsWith(`${focused}:`))?.focus();
}

function markChosen(scroll) {
  for (const row of byId("links").rows) row.className = row.id === `link-${seen.chosen}` ? "chosen" : "";
  if (scroll) byId(`link-${seen.chosen}`)?.scrollIntoView({ block: "center" });
}

function drawBindings(answer) {
  const { total, found, bindings } = answer;
  byId("found").textContent = found === null ? `${total} bindings: too many to search here; use: roam6 show bindings | grep ADDRESS`
    : found > bindings.length ? `${found} of ${total} found, the first ${bindings.length} shown` : `${found} of ${total}`;
  fill("bindings", bindings.map((binding) => {
    const state = html("td", { className: binding.last_error ? "bad" : "" }, binding.state.replaceAll("_", " "));
    if (binding.last_error) state.append(html("p", { className: "fault" }, binding.last_error));
    const care = binding.care_of ? plain(binding.care_of) + (binding.udp_port ? ` port ${binding.udp_port}` : "") : "at home";
    return html("tr", {}, html("th", { scope: "row" }, binding.home_address, ...(binding.name ? [html("p", {}, binding.name)] : [])), cell(care), cell(binding.prefixes.join(" "), "wrap"), state, cell(age(seconds(binding.remaining))));
  }));
}

function drawHeader(state, links, tunnels, answer) {
  byId("name").textContent = state.name;
  document.title = `${state.name} - roam6`;
  const own = answer.bindings.filter((binding) => binding.role === "mobile_router");
  const served = answer.bindings.some((binding) => binding.role === "home_agent") || answer.found === null ? answer.total - own.length : 0;
  const uplinks = links.filter((link) => link.role === "uplink");
  const usable = uplinks.filter((link) => standing(link, tunnels)[0] !== "bad").length;
  const bound = own.some((binding) => ["bound", "refreshing", "home"].includes(binding.state));
  let [kind, words] = ["good", "running"];
  if (own.length) [kind, words] = bound ? ["good", own.some((binding) => binding.care_of) ? "connected" : "at home"] : ["bad", "not connected"];
  else if (uplinks.length) [kind, words] = ["bad", "not connected"];
  if (kind === "good" && uplinks.length && usable < uplinks.length) [kind, words] = ["standby", `${words}, ${uplinks.length - usable} of ${uplinks.length} uplinks not usable`];
  byId("state").className = `badge ${kind}`;
  byId("state").textContent = words;
  byId("about").textContent = [served ? `home agent of ${served} bindings` : "", `up ${age(state.at / 1e6)}`].filter(Boolean).join(", ");
  byId("version").textContent = `roam6 ${state.version}`;
}

/** Values of each link between successive samples. A link has the same line in all charts. */
function series(history, value) {
  const names = [...new Set(history.flatMap((sample) => Object.keys(sample.links)))];
  return names.map((name, style) => ({ name, style: style % 4, points: history.slice(1).map((sample, index) => [sample.unix, value(sample.links[name], history[index].links[name], sample.unix - history[index].unix)]) }))
    .filter((one) => one.points.some(([, number]) => number !== null));
}

function drawPlots(history) {
  // Redrawing would take away the cursor and what is open.
  const text = `${history.length} ${history.at(-1)?.unix}`;
  if (text === seen.plots || byId("plots").matches(":focus-within, :hover") || byId("plots").querySelector("details[open]")) return;
  seen.plots = text;
  const difference = (key) => (now, before, span) => now && before && span > 0 && now[key] >= before[key] ? (now[key] - before[key]) * 8 / span : null;
  fill("plots", [
    chart("Received", series(history, difference("rx")), rate),
    chart("Sent", series(history, difference("tx")), rate),
    chart("Round trip", series(history, (now) => now?.rtt === null || now === undefined ? null : now.rtt / 1000), milliseconds),
    chart("Loss", series(history, (now) => now?.loss === null || now === undefined ? null : now.loss / 10), (value) => `${+value.toFixed(1)} %`),
  ]);
}

const details = (event) => Object.entries(event).filter(([key, value]) => !["unix_micros", "at", "event", "link"].includes(key) && value !== null)
  .map(([key, value]) => `${key.replaceAll("_", " ")} ${value?.secs === undefined ? (typeof value === "object" ? JSON.stringify(value) : value) : age(seconds(value))}`).join(", ");

const named = (event) => event.mobile_router ? `${event.mobile_router} (${event.home_address})` : event.home_address;

const MOVES = {
  bound: (event) => `registered ${event.care_of?.map(plain).join(" and ") ?? ""} at ${event.home_agent}`,
  at_home: () => "at home",
  link_down: (event) => `${event.name} lost its carrier`, link_up: (event) => `${event.name} is up`,
  path_down: (event) => `no answer by ${plain(event.care_of)}`, path_up: (event) => `${event.care_of} answers again`,
  path_degraded: (event) => `${event.care_of} is degraded: ${event.why}`, path_restored: (event) => `${event.care_of} is good again`,
  registered: (event) => event.moved ? `${named(event)} moved to ${event.care_of?.join(" and ")}` : null,
  deregistered: (event) => `${named(event)} left: ${event.why}`,
};

function drawEvents() {
  if (seen.paused) return;
  const filter = byId("filter").value.toLowerCase();
  const shown = seen.events.filter((event) => `${event.event.replaceAll("_", " ")} ${details(event)}`.toLowerCase().includes(filter)).slice(-MAX_EVENTS).reverse();
  fill("events", shown.map((event) => html("tr", {}, cell(clock(event.unix_micros / 1e6)), cell(event.event.replaceAll("_", " ")), cell(details(event), "wrap"))));
  const moves = seen.events.map((event) => [event, MOVES[event.event]?.(event)]).filter(([, words]) => words).slice(-30).reverse();
  fill("moves", moves.length ? moves.map(([event, words]) => html("li", {}, html("time", {}, clock(event.unix_micros / 1e6)), words)) : [html("li", {}, "none since the page's server started")]);
}

async function update() {
  try {
    const find = encodeURIComponent(byId("find").value);
    const [links, stations, bindings, events] = await Promise.all([get("/api/show/links"), get("/api/show/stations"),
      get(`/api/bindings?find=${find}`), get(`/api/events?after=${seen.next}`)]);
    const isStation = stations.stations.length > 0;
    const [ldm, areas] = isStation ? await Promise.all([get("/api/show/ldm"), get("/api/show/areas")]) : [];
    if (events.next < seen.next) seen.events = [];
    seen.next = events.next;
    seen.events = seen.events.concat(events.events).slice(-512);
    const tunnels = bindings.tunnels;
    drawHeader(links, links.links, tunnels, bindings);
    drawLinks(links.links, tunnels);
    drawMap(links.links, tunnels, bindings.bindings);
    drawBindings(bindings);
    drawStations(stations.stations, ldm?.ldm?.events ?? [], areas?.areas ?? []);
    drawEvents();
    if (Date.now() - seen.plotted >= HISTORY_POLL) { seen.plotted = Date.now(); drawPlots(await get("/api/history")); }
    byId("problem").hidden = true;
  } catch (error) {
    byId("problem").textContent = error instanceof TypeError || error.name === "TimeoutError" ? "The page's server (roam6 web) does not answer." : error.message;
    byId("problem").hidden = false;
    byId("state").className = "badge bad";
    byId("state").textContent = "no data";
  }
}

/** Updates as long as the page is seen. */
async function run() {
  for (;;) {
    if (document.visibilityState === "visible") await update();
    await new Promise((resolve) => setTimeout(resolve, POLL));
  }
}

byId("logout")?.addEventListener("click", async () => {
  await fetch("/api/logout", { method: "POST", headers: { "Content-Type": "application/scram-sha-256" } });
  location.reload();
});
byId("search").addEventListener("submit", (event) => { event.preventDefault(); update(); });
byId("filter").addEventListener("input", drawEvents);
byId("pause").addEventListener("click", () => {
  seen.paused = !seen.paused;
  byId("pause").setAttribute("aria-pressed", String(seen.paused));
  drawEvents();
});
run();
