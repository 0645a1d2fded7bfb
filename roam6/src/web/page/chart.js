// Line charts of the last hour, in SVG: a cursor by pointer or arrow keys, and the values as a table.

const NS = "http://www.w3.org/2000/svg";
const WIDTH = 520, HEIGHT = 190, LEFT = 84, RIGHT = 8, TOP = 10, BOTTOM = 24;

/** An SVG element with attributes and children. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** An HTML element with properties and children; strings become text. */
export function html(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

export const clock = (unix) => new Date(unix * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** A round number not below `value`: 1, 2 or 5 times a power of ten. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((limit) => limit >= value * 0.999) ?? value;
}

/** Minutes that a chart shows: of the last hour, as little as its points need. */
const shownMinutes = (span) => [3, 15, 60].find((minutes) => span <= minutes * 60) ?? 60;

/** A chart: `series` is a list of {name, style, points: [[unix, value or null]]}; `format` writes a value with its unit. */
export function chart(title, series, format) {
  const times = [...new Set(series.flatMap((one) => one.points.map(([unix]) => unix)))].sort((a, b) => a - b);
  const last = times.at(-1) ?? 0, minutes = shownMinutes(last - (times[0] ?? 0)), first = last - minutes * 60;
  const values = series.flatMap((one) => one.points.map(([, value]) => value)).filter((value) => value !== null);
  const top = roundUp(Math.max(0, ...values) || 1);
  const x = (unix) => LEFT + ((unix - first) / (minutes * 60)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", tabindex: "0" });
  picture.setAttribute("aria-label", values.length ? `${title}; arrow keys move a cursor` : `${title}: no values yet`);
  for (const share of [0, 0.5, 1]) {
    picture.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(top * share), y2: y(top * share) }));
    picture.append(svg("text", { class: "dim", x: LEFT - 6, y: y(top * share) + 4, "text-anchor": "end" }, values.length ? format(top * share) : ""));
  }
  for (const ago of [minutes, minutes * 2 / 3, minutes / 3, 0]) {
    const anchor = ago === 0 ? "end" : "middle";
    picture.append(svg("text", { class: "dim", x: x(last - ago * 60), y: HEIGHT - 6, "text-anchor": anchor }, ago ? `-${ago} min` : "now"));
  }
  for (const one of series) picture.append(svg("path", { class: `series plot-${one.style}`, d: line(one.points, x, y) }));
  const caption = html("figcaption");
  const describe = (unix) => caption.replaceChildren(html("span", {}, unix === undefined ? title : `${title}, ${clock(unix)}`),
    ...series.map((one) => legend(one, unix ?? last, format)));
  describe();
  addCursor(picture, times, x, describe);
  return html("figure", {}, picture, caption, valueTable(title, series, times, format));
}

function legend(one, unix, format) {
  const value = one.points.find(([at]) => at === unix)?.[1];
  const key = svg("svg", { class: "key", viewBox: "0 0 32 4", "aria-hidden": "true" });
  key.append(svg("path", { class: `series plot-${one.style}`, d: "M1 2h30" }));
  return html("span", {}, key, `${one.name} ${value === undefined || value === null ? "-" : format(value)}`);
}

/** A path that is interrupted where there are no values; a single value is a dot. */
function line(points, x, y) {
  let pen = "M", text = "";
  for (const [unix, value] of points) {
    if (value === null) pen = "M";
    else { text += `${pen}${x(unix).toFixed(1)} ${y(value).toFixed(1)}${pen === "M" ? "h0" : ""}`; pen = "L"; }
  }
  return text;
}

function addCursor(picture, times, x, describe) {
  let at = times.length;
  const cursor = svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  picture.append(cursor);
  const show = (index) => {
    at = Math.max(0, Math.min(times.length - 1, index));
    const shown = index < times.length && times.length > 0;
    cursor.setAttribute("visibility", shown ? "visible" : "hidden");
    if (shown) for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(times[at]));
    describe(shown ? times[at] : undefined);
  };
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const unix = times.map((time) => Math.abs(x(time) - ((event.clientX - box.left) / box.width) * WIDTH));
    show(unix.indexOf(Math.min(...unix)));
  });
  picture.addEventListener("pointerleave", () => show(times.length));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -times.length, End: times.length - 1 - at }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show(at + step);
  });
}

/** The values, one row each minute, for those who do not see the picture. */
function valueTable(title, series, times, format) {
  const rows = times.filter((_, index) => index % 6 === 0).reverse().map((unix) => {
    const cells = series.map((one) => one.points.find(([at]) => at === unix)?.[1]);
    return html("tr", {}, html("th", { scope: "row" }, clock(unix)), ...cells.map((value) => html("td", {}, value === undefined || value === null ? "-" : format(value))));
  });
  const head = html("tr", {}, html("th", { scope: "col" }, "Time"), ...series.map((one) => html("th", { scope: "col" }, one.name)));
  const box = html("div", { className: "scroll", tabIndex: 0 }, html("table", {}, html("thead", {}, head), html("tbody", {}, ...rows)));
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", `${title}: values`);
  return html("details", {}, html("summary", {}, "Values"), box);
}
