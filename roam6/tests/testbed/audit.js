// What a person without a mouse, or with weak eyes, needs of a page; returns what is missing. The body of a function.
const missing = [];
const visible = (element) => element.checkVisibility({ checkVisibilityCSS: true, checkOpacity: true });
const name = (element) => element.getAttribute("aria-label") ||
  (element.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ").trim() ||
  [...(element.labels ?? [])].map((label) => label.textContent).join(" ").trim() || element.textContent.trim();
const outline = (element) => element.outerHTML.slice(0, 90);

// WCAG 2.2: 1.3.1, 2.4.2, 3.1.1, 4.1.2.
if (!document.documentElement.lang) missing.push("no language");
if (!document.title) missing.push("no title");
if (!document.querySelector("main")) missing.push("no main landmark");
if (document.querySelectorAll("h1").length !== 1) missing.push("not one h1");
const levels = [...document.querySelectorAll("h1, h2, h3, h4")].map((heading) => Number(heading.tagName[1]));
levels.forEach((level, index) => { if (index && level > levels[index - 1] + 1) missing.push(`heading h${level} after h${levels[index - 1]}`); });
const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
ids.filter((id, index) => ids.indexOf(id) !== index).forEach((id) => missing.push(`id ${id} twice`));
for (const element of document.querySelectorAll("input:not([hidden]), button, a, select, [role=button], [role=img], [role=region], [role=group]")) {
  if (!name(element)) missing.push(`no name: ${outline(element)}`);
}
for (const table of document.querySelectorAll("table")) {
  for (const cell of table.querySelectorAll("thead th")) if (cell.scope !== "col") missing.push(`no scope: ${outline(cell)}`);
}

// 1.4.3: contrast of text, 4.5, or 3 where it is large.
const rgba = (text) => { const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number); return text.startsWith("color(") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a]; };
const over = (top, below) => top.slice(0, 3).map((part, index) => part * top[3] + below[index] * (1 - top[3]));
const backdrop = (element) => {
  if (!element) return [255, 255, 255];
  const own = rgba(getComputedStyle(element).backgroundColor);
  return own[3] === 1 ? own.slice(0, 3) : over(own, backdrop(element.parentElement));
};
const luminance = (colour) => {
  const [r, g, b] = colour.map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !visible(element) || ["SCRIPT", "NOSCRIPT", "STYLE"].includes(element.tagName)) continue;
  const style = getComputedStyle(element), below = backdrop(element);
  const colour = over(rgba(element instanceof SVGElement ? style.fill : style.color), below);
  const [light, dark] = [luminance(colour), luminance(below)].sort((one, other) => other - one);
  const ratio = (light + 0.05) / (dark + 0.05), size = parseFloat(style.fontSize);
  const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  if (ratio < (isLarge ? 3 : 4.5)) missing.push(`contrast ${ratio.toFixed(2)}: ${walker.currentNode.textContent.trim().slice(0, 40)}`);
}

// 2.1.1, 2.5.8: what can be clicked can be focused, and is large enough.
for (const element of document.querySelectorAll("button, input:not([hidden]), a[href], summary, [role=button]")) {
  if (visible(element) && element.tabIndex < 0) missing.push(`no focus: ${outline(element)}`);
  const box = element.getBoundingClientRect();
  if (visible(element) && (box.width < 24 || box.height < 24) && element.tagName !== "SUMMARY") missing.push(`small: ${outline(element)}`);
}
// What may be longer than its frame is scrolled by keys.
for (const element of document.querySelectorAll("body *")) {
  const style = getComputedStyle(element);
  if (/auto|scroll/.test(style.overflowX + style.overflowY) && element.tabIndex < 0) missing.push(`no focus to scroll: ${outline(element)}`);
}
for (const element of document.querySelectorAll("[tabindex]")) if (element.tabIndex > 0) missing.push(`order of focus: ${outline(element)}`);

// Its size, and that all of it comes from here.
const resources = performance.getEntriesByType("resource");
const octets = [...resources.filter((entry) => !new URL(entry.name).pathname.startsWith("/api/")), ...performance.getEntriesByType("navigation")]
  .reduce((sum, entry) => sum + entry.transferSize, 0);
if (octets > 80_000) missing.push(`${octets} octets`);
resources.filter((entry) => new URL(entry.name).host !== location.host).forEach((entry) => missing.push(`foreign: ${entry.name}`));
return missing;
