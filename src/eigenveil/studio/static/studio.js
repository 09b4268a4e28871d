// The frame of the studio: elements, questions to the server, words, and which tab is shown.
// Text reaches the page as text alone: nothing here builds HTML from strings.

const SVG = "http://www.w3.org/2000/svg";
const PAGE = document.querySelector('meta[name="page"]').content;

/** Return an element; attributes that begin with "on" are listeners. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Return an element of a drawing. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (["value", "checked", "selected"].includes(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A mistake that the server has put into words. */
export class Mistake extends Error {}

async function answer(response) {
  const text = await response.text();
  let found = {};
  try { found = JSON.parse(text); } catch { found = { error: text }; }
  if (!response.ok) throw Object.assign(new Mistake(found.error || "the studio does not answer"), found);
  return found;
}

async function ask(path, options) {
  try {
    return await answer(await fetch(path, options));
  } catch (error) {
    if (error instanceof TypeError) throw new Mistake("The studio does not answer: was it stopped? Start it again with eigenveil studio.");
    throw error;
  }
}

const headers = { "x-eigenveil-page": PAGE };
export const api = {
  get: (path, asked = {}, signal) => ask(`api/${path}?${new URLSearchParams(asked)}`, { signal }),
  post: (path, asked = {}, signal) => ask(`api/${path}`, { method: "POST", body: JSON.stringify(asked), headers, signal }),
  put: (path, body) => ask(`api/${path}`, { method: "PUT", body, headers }),
  address: (path, asked) => `api/${path}?${new URLSearchParams(asked)}`,
};

// Words -------------------------------------------------------------------------------------------

const GLOSSARY = {
  epsilon: "Epsilon (ε) limits how much one person, or row, can change what is released. Smaller is more private.",
  delta: "Delta (δ) is a tiny probability with which the limit of epsilon may fail. It should be far below one over the number of rows.",
  component: "A principal component is a direction in which the columns vary together. The first one explains most.",
  loading: "A loading says how much a column weighs in a component. The sign of a whole component is arbitrary.",
  floor: "What noise alone rarely exceeds. Whatever lies below it cannot be told from noise.",
  reproducibility: "The expected squared cosine between a component and the one of the same rank that the same rows give without noise. 100 % means that noise changed nothing.",
  reliability: "The share of a direction that noise leaves intact, on average. Directions of similar variance mix with each other, which is not counted.",
  ledger: "A file that records every release from one table, so that all of them together stay within one total.",
  variance: "100 % means: as much variance as ordinary PCA with the same number of components captures.",
  fingerprint: "One number for all files of a release. If two people have the same fingerprint, they have the same release.",
  scale: "What a column is divided by, so that columns in different units count alike.",
  unit: "What is protected as a whole: one row, or all rows of one person.",
};

/** Return a word with its explanation, on focus, tap and hover. */
export function term(word, key) {
  const id = `gloss-${key}-${Math.random().toString(36).slice(2, 8)}`;
  const box = h("span", { class: "gloss" });
  const button = h("button", {
    type: "button", class: "term", "aria-describedby": id,
    onclick: () => box.classList.toggle("open"),
    onblur: () => box.classList.remove("open"),
    onkeydown: (event) => { if (event.key === "Escape") { box.classList.remove("open"); button.blur(); } },
    onpointerenter: () => box.classList.toggle("right", button.getBoundingClientRect().left > innerWidth / 2),
    onfocus: () => box.classList.toggle("right", button.getBoundingClientRect().left > innerWidth / 2),
  }, word);
  box.append(button, h("span", { class: "tip", role: "tooltip", id }, GLOSSARY[key]));
  return box;
}

/** Never round up to 100 %, nor down to nothing. */
export function percent(share, places = 0) {
  const text = (100 * share).toFixed(places);
  if (share < 1 && +text >= 100) return `>${(100 - 10 ** -places).toFixed(places)} %`;
  if (share > 0 && +text <= 0) return `<${(10 ** -places).toFixed(places)} %`;
  return `${text} %`;
}
const SMALL = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
/** Return a number with so many digits; a tiny or huge one as a power of ten. */
export function number(value, digits = 3) {
  if (value === null) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) {
    const [front, power] = Number(value.toPrecision(digits)).toExponential().split("e");
    const raised = String(+power).replace(/./g, (digit) => SMALL[digit]);
    return front === "1" ? `10${raised}` : `${front} · 10${raised}`;
  }
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 12 }).replace("-", "−");
}
export const count = (value, noun) => `${value.toLocaleString("en")} ${noun}${value === 1 ? "" : "s"}`;
export const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(2);

export function say(text) { document.getElementById("said").textContent = text; }
export function cry(text) { document.getElementById("cried").textContent = text; }

const ICONS = {
  good: "M3 8.5l3.5 3.5L13 4.5", warn: "M8 2l6.5 12h-13zM8 6.5v3.5M8 12v.2", info: "M8 7.2v4M8 4.8v.2M8 1.5a6.5 6.5 0 1 0 .01 0",
  wait: "M8 1.5a6.5 6.5 0 1 0 .01 0M8 4.5V8l2.5 1.5", out: "M8 1.5a6.5 6.5 0 1 0 .01 0M5 8h6",
};
export const icon = (name) => s("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" }, s("path", { d: ICONS[name] }));
export const badge = (good, text, more) => h("span", { class: `badge ${good ? "" : "warn"}`, title: more }, icon(good ? "good" : "warn"), text);

/** Return a message: what, then what to do. */
export function notice(kind, lead, more = "", ...buttons) {
  return h("div", { class: `notice ${kind === "warn" ? "warn" : ""}`, role: kind === "warn" ? "alert" : "status" }, icon(kind),
    h("div", {}, h("p", {}, h("b", {}, lead), more ? ` ${more}` : ""), buttons.length ? h("div", { class: "row" }, buttons) : null));
}

export const button = (text, onclick, look = "") => h("button", { type: "button", class: `btn ${look}`, onclick }, text);

export function head(title, under, ...right) {
  return h("div", { class: "head" }, h("div", {}, h("h1", {}, title), h("p", { class: "soft" }, under)), ...right);
}

export function tile(name, big, small, note) {
  return h("div", { class: "tile" }, h("dt", {}, name), h("dd", { class: "big" }, big, small ? h("i", {}, ` ${small}`) : null), note ? h("dd", { class: "note" }, note) : null);
}

// Drawings ----------------------------------------------------------------------------------------

/** Draw at the width of the container, and again when that changes. */
export function chart(draw) {
  const box = h("div", { class: "chart" });
  let width = 0;
  const again = () => { if (width) box.replaceChildren(draw(width)); };
  new ResizeObserver(([entry]) => {
    const found = Math.round(entry.contentRect.width);
    if (found !== width) { width = found; again(); }
  }).observe(box);
  box.redraw = again;
  return box;
}

export function drawing(width, height, title, ...parts) {
  return s("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img" }, s("title", {}, title), hatch(), parts);
}
let patterns = 0;
export function hatch() {
  patterns += 1;
  return s("defs", {}, s("pattern", { id: `hatch${patterns}`, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("line", { y2: 7, class: "hatchline" })));
}
export const hatched = () => `url(#hatch${patterns})`;
export const text = (x, y, words, look = "", anchor = "start") => s("text", { x, y, class: look, "text-anchor": anchor }, words);

/** Return a bar from 0 to 100 %, with a whisker where there is one. */
export function share(value, low, high, clear = true) {
  const bar = s("svg", { "aria-hidden": "true" }, hatch(), s("rect", { width: "100%", height: 14, rx: 2, class: "f-track" }));
  const at = (x) => `${Math.max(0, Math.min(100, 100 * x)).toFixed(2)}%`;
  if (clear) bar.append(s("rect", { width: at(value), height: 14, rx: 2, class: "f-signal" }));
  else bar.append(s("rect", { width: "100%", height: 14, rx: 2, class: "f-noise-soft" }), s("rect", { width: "100%", height: 14, rx: 2, fill: hatched() }));
  if (high - low > 0.004) {
    bar.append(s("line", { x1: at(low), x2: at(high), y1: 7, y2: 7, class: "l-ink" }));
    for (const x of [low, high]) bar.append(s("line", { x1: at(x), x2: at(x), y1: 2, y2: 12, class: "l-ink" }));
  }
  return bar;
}

/** Return a gauge of a ledger: spent before, what a release adds, and the total. */
export function gauge(before, after, total, label, look = "") {
  const over = after > total * 1.000001, size = over ? after : total;
  const at = (x) => `${(100 * x / size).toFixed(2)}%`;
  const picture = s("svg", { role: "img" }, s("title", {}, `Spent before ${number(before)}, with this release ${number(after)}, of ${number(total)}`), hatch(),
    s("rect", { width: "100%", height: 28, class: "f-track" }), s("rect", { width: at(before), height: 28, class: "f-ink" }));
  if (after > before) {
    picture.append(s("rect", { x: at(before), width: at(after - before), height: 28, class: over ? "f-noise-soft" : "f-signal" }), s("rect", { x: at(before), width: 2, height: 28, class: "f-card" }));
    if (over) picture.append(s("rect", { x: at(before), width: at(after - before), height: 28, fill: hatched() }), s("rect", { x: at(total), width: 3, height: 28, class: "f-noise" }));
  }
  return h("div", { class: `gauge ${look}` }, label ? h("div", { class: "lab" }, h("span", {}, label), h("span", { class: "num" }, over ? "would be " : "spent ", h("b", {}, number(after)), ` of ${number(total)}`)) : null, picture);
}
export const key = (look, words) => h("span", {}, s("svg", { "aria-hidden": "true" }, hatch(), s("rect", { width: 14, height: 14, rx: 2, class: look }), look === "f-noise-soft" ? s("rect", { width: 14, height: 14, fill: hatched() }) : null), words);

/** The promise, in the guarantee's own words. */
export function statement(promise, title = "What is promised") {
  const entries = promise.statements.map(([label, words]) => {
    const not = label === "Not protected";
    const parts = words.split("; ");
    return h("div", { class: not ? "not" : null }, h("dt", {}, label), h("dd", {}, not ? h("ul", {}, parts.map((part) => h("li", {}, part))) : `${words}.`));
  });
  return h("section", { class: "card statement" }, title ? h("h2", {}, title) : null,
    promise.simulated ? notice("warn", "A simulation: the noise came from a seed and protects nobody.") : null,
    h("p", { class: "lead" }, `${promise.lead}.`), h("dl", {}, entries));
}

// Tabs --------------------------------------------------------------------------------------------

export const state = JSON.parse(document.body.dataset.state);
export async function refresh() {
  const { table, ...found } = await api.get("state");
  return Object.assign(state, found, { table: state.table || table }); // what was chosen here stays
}
export function dock(...content) { document.getElementById("dock").replaceChildren(...(content.length ? [h("div", { class: "dock" }, h("div", {}, content))] : [])); }
export function where(name) { document.getElementById("where").textContent = name || state.folder; }
export function go(...parts) { location.hash = parts.map(encodeURIComponent).join("/"); }

const TABS = ["plan", "read", "ledger", "federation"];
let leave = () => {};

async function show() {
  const [tab, ...rest] = location.hash.slice(1).split("/").map(decodeURIComponent);
  if (tab === "main") return;
  const name = TABS.includes(tab) ? tab : TABS[0];
  for (const link of document.querySelectorAll(".tabs a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  leave(); leave = () => {};
  dock(); where(state.table);
  const main = document.getElementById("main");
  const stop = new AbortController();
  leave = () => stop.abort();
  try {
    const module = await import(`./${name}.js`);
    if (!stop.signal.aborted) await module.show(main, rest, stop.signal);
  } catch (error) {
    if (stop.signal.aborted) return;
    main.replaceChildren(head("This did not work", ""), notice("warn", error.message));
  }
}

addEventListener("hashchange", () => { show(); document.getElementById("main").focus(); });
show();
