// The tab Read: choose or drop a release, see whether it is intact, what it promises and shows.
import { api, badge, button, chart, count, cry, drawing, go, h, hatched, head, icon, notice, number, percent, refresh, s, say, share, signed, state, statement, term, text, tile, where } from "./studio.js";

const FILES = ["release.json", "arrays.npz", "report.html", "SHA256SUMS", "SIGNATURE"];

export async function show(main, [name, ...rest], signal) {
  if (!name) { await refresh(); main.replaceChildren(choosing()); return; }
  where(name.startsWith("received:") ? "a release you dropped" : name);
  const [other, key] = rest;
  let found;
  try {
    found = await api.get("release", { name, ...(key ? { key } : {}) }, signal);
  } catch (error) {
    if (signal.aborted) return;
    cry(error.message);
    main.replaceChildren(head("This release was not opened", name.startsWith("received:") ? "" : name),
      h("div", { class: "stack" }, notice("warn", sentence(error.message), "Do not use it. Compare the fingerprint with its sender.", button("Choose another", () => go("read"), "slim"))));
    return;
  }
  main.replaceChildren(page(found, key));
  say(`${found.headline}`);
  if (other && other !== "-") await comparing(main.querySelector("#compared"), name, other, signal);
}

const sentence = (words) => words[0].toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");

// Choosing ----------------------------------------------------------------------------------------

function choosing() {
  const input = h("input", { type: "file", accept: ".zip", class: "hidden", id: "zip", "aria-label": "A release in a zip", onchange: () => receive([...input.files]) });
  const folder = h("input", { type: "file", webkitdirectory: true, class: "hidden", id: "folder", "aria-label": "A release folder", onchange: () => receive([...folder.files]) });
  const drop = h("div", {
    class: "drop",
    ondragover: (event) => { event.preventDefault(); drop.classList.add("over"); },
    ondragleave: () => drop.classList.remove("over"),
    ondrop: async (event) => { event.preventDefault(); drop.classList.remove("over"); receive(await dropped(event.dataTransfer)); },
  },
    h("h2", {}, "Drop a release here"), h("p", { class: "soft" }, "A folder or a zip that somebody sent. It is checked before anything of it is shown."),
    h("div", { class: "row" }, button("Choose a folder", () => folder.click(), "go"), button("Choose a zip", () => input.click())), input, folder, h("div", { id: "dropped" }));
  const known = state.releases.length
    ? h("ul", { class: "log" }, state.releases.map((name) => h("li", {}, h("a", { href: `#read/${encodeURIComponent(name)}` }, name))))
    : h("p", { class: "soft" }, "There is none yet. Releases that you make lie here.");
  return h("div", {}, head("Read a release", "Whether it is intact, who signed it, what it promises and what it shows. Reading costs nothing."),
    h("div", { class: "cols half" }, drop, h("section", { class: "card" }, h("h2", {}, "Releases in this folder"), known)));
}

async function dropped(data) {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const files = [];
  for (const entry of entries) {
    if (entry.isFile) files.push(await new Promise((done, failed) => entry.file(done, failed)));
    else files.push(...await within(entry));
  }
  return files;
}

async function within(folder) {
  const entries = await new Promise((done, failed) => folder.createReader().readEntries(done, failed));
  return Promise.all(entries.filter((entry) => entry.isFile).map((entry) => new Promise((done, failed) => entry.file(done, failed))));
}

async function receive(files) {
  const told = document.getElementById("dropped");
  const zip = files.length === 1 && files[0].name.toLowerCase().endsWith(".zip");
  const known = zip ? files : files.filter((file) => FILES.includes(file.name));
  if (!zip && known.length < 4) {
    told.replaceChildren(notice("warn", "This is no release.", `A release has ${FILES.slice(0, 4).join(", ")}, in a folder or a zip.`));
    return;
  }
  told.replaceChildren(h("p", { role: "status" }, "Receiving …"));
  try {
    const { id } = await api.post("received");
    for (const file of known) await api.put(`received/${id}/${zip ? "release.zip" : file.name}`, file);
    go("read", `received:${id}`);
  } catch (error) { told.replaceChildren(notice("warn", sentence(error.message))); }
}

// One release -------------------------------------------------------------------------------------

function page(found, key) {
  const asked = { name: found.name, ...(key ? { key } : {}) };
  const link = (words, path, more = {}) => h("a", { class: "btn slim", href: api.address(path, { ...asked, ...more }), ...(path.endsWith("export") ? { download: "" } : { target: "_blank", rel: "noopener" }) }, words);
  const others = state.releases.filter((name) => name !== found.name);
  const compare = h("select", { class: "slim", "aria-label": "Compare with", onchange: () => compare.value && go("read", found.name, compare.value, ...(key ? [key] : [])) },
    h("option", { value: "" }, "Compare with …"), others.map((name) => h("option", { value: name }, name)));
  const title = found.title || found.headline.split(",")[0];
  const under = `${count(found.n_features, "column")} · released ${found.created.slice(0, 10)} · ${found.name.startsWith("received:") ? "dropped on this page" : found.name}`;
  return h("div", {},
    h("div", { class: "head" },
      h("div", {}, h("h1", {}, title[0].toUpperCase() + title.slice(1)), h("p", { class: "soft" }, under), found.left_out ? h("p", {}, h("b", {}, `Left out: ${found.left_out}`)) : null, found.standardised ? h("p", { class: "soft" }, `Components of standardised columns (correlations), of rows pulled in to the released limits${found.hidden ? `; ${found.hidden}` : ""}.`) : null, h("div", { class: "row" }, found.checks.map((check) => badge(check.good, check.title, check.more)))),
      h("div", { class: "row" }, others.length ? compare : null, link("CSV", "release/export", { format: "csv" }), link("Zip", "release/export", { format: "zip" }), link("Page to print and sign", "release/report"))),
    h("div", { class: "cols read" },
      h("div", { class: "stack" }, tiles(found), scree(found), captured(found), trust(found), coefficients(found), correlations(found), h("div", { class: "cols half" }, signing(found, key), h("section", { class: "card" }, h("h2", {}, term("Fingerprint", "fingerprint")), h("p", { class: "small soft" }, "Compare it with the one noted on the day of the release."), h("p", { class: "print" }, found.fingerprint.match(/.{4}/g).join(" "))))),
      h("div", { class: "stack" }, statement(found.promise), owners(found))),
    h("div", { class: "stack", id: "below" }, loadings(found), scores(found), h("div", { id: "compared" })));
}

function signing(found, key) {
  const keys = state.keys.filter((name) => name.endsWith(".pub"));
  const signed = found.checks[2];
  const choose = h("select", { onchange: () => choose.value && go("read", found.name, "-", choose.value) }, h("option", { value: "" }, keys.length ? "Choose a public key …" : "No .pub file in this folder"), keys.map((name) => h("option", { value: name, selected: name === key }, name)));
  return h("section", { class: "card" }, h("h2", {}, "Signature"), h("p", { class: "small soft" }, sentence(signed.more)), h("label", { class: "field" }, "The key you trust", choose));
}

function tiles(found) {
  const budget = Object.entries(found.promise.budget).map(([name, value]) => `${{ epsilon: "ε", delta: "δ", rho: "ρ" }[name]} = ${number(value, 6)}`);
  const of = { pca: `of ${count(found.components.length, "component")}`, covariance: "eigenvalues", regression: found.clear === null ? "coefficients: not estimated" : "coefficients" }[found.kind];
  return h("dl", { class: "tiles" },
    tile("Clear of noise", found.clear ?? "–", of), tile("Privacy spent", budget[0], "", [budget[1], `protects ${found.promise.unit}`].filter(Boolean).join(", ")),
    tile("Table", found.n_rows === null ? "private" : found.n_rows.toLocaleString("en"), found.n_rows === null ? "number" : found.promise.unit === "one row" ? "rows" : "persons", count(found.n_features, "column")));
}

function scree(found) {
  const shown = found.spectrum;
  if (!shown) return null;
  const above = shown.values.filter((value) => value > shown.floor).length, clear = shown.clear.filter(Boolean).length;
  const noun = found.kind === "pca" ? "component" : "eigenvalue";
  const words = `${clear === 0 ? `No ${noun} is` : clear === 1 ? `1 ${noun} is` : `${clear} ${noun}s are`} clear of noise`;
  const unit = shown.unit_rows ? "Share of the variance of rows of unit length, in percent." : `In ${shown.unit}.`;
  const more = above > clear ? ` ${above - clear} more above the line: like many others, or the error of the centre. Do not interpret ${above - clear === 1 ? "it" : "them"}.` : "";
  const form = (value) => (shown.unit_rows ? (100 * value).toFixed(1) : number(value));
  const picture = chart((width) => {
    const height = 240, left = 48, right = width < 520 ? 12 : 128, top = 24, base = height - 34;
    const most = Math.max(...shown.values, shown.floor) * 1.08, y = (value) => base - (base - top) * Math.max(0, value) / most;
    const step = (width - left - right) / shown.values.length, wide = step > 34;
    const bars = shown.values.map((value, i) => [
      s("rect", { x: left + i * step + step * .15, width: step * .7, y: y(value), height: Math.max(0, base - y(value)), class: shown.clear[i] ? "f-signal" : "f-faint" }),
      wide ? text(left + (i + .5) * step, y(value) - 6, form(value), shown.clear[i] ? "strong" : "ax", "middle") : null,
      wide || i % Math.ceil(30 / step) === 0 ? text(left + (i + .5) * step, base + 18, i + 1, "ax", "middle") : null]);
    const picture = drawing(width, height, `${words}. Noise alone rarely exceeds ${form(shown.floor)}.`);
    picture.append(s("line", { x1: left, x2: width - right, y1: base, y2: base, class: "axis" }), text(left - 6, base + 4, "0", "ax", "end"), text(left - 6, y(most / 1.08) + 4, form(most / 1.08), "ax", "end"), ...bars.flat().filter(Boolean),
      s("rect", { x: left, width: width - left - right, y: y(shown.floor), height: base - y(shown.floor), fill: hatched() }), s("line", { x1: left, x2: width - right, y1: y(shown.floor), y2: y(shown.floor), class: "l-noise" }),
      ...(width < 520 ? [text(width - right, top - 8, `dashed: noise floor ${form(shown.floor)}`, "t-noise strong", "end")]
        : [text(width - right + 6, y(shown.floor) - 2, `noise floor ${form(shown.floor)}`, "t-noise strong"), text(width - right + 6, y(shown.floor) + 15, "noise alone rarely", "ax"), text(width - right + 6, y(shown.floor) + 31, "exceeds it", "ax")]),
      text(left, height, found.kind === "pca" ? "component, largest first" : "eigenvalue, largest first", "ax"));
    return picture;
  });
  return h("section", { class: "card" }, h("h2", {}, words), h("p", { class: "small soft" }, unit + more + (shown.all > shown.values.length ? ` The first ${shown.values.length} of ${shown.all}.` : "")), picture,
    numbers(["no.", "value", "clear"], shown.values.map((value, i) => [i + 1, form(value), shown.clear[i] ? "yes" : "no"])));
}

function numbers(titles, rows) {
  return h("details", {}, h("summary", {}, "Show the numbers"), h("table", { class: "data" }, h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", { class: "num" }, cell)))))));
}

function captured(found) {
  if (!found.captured) return null;
  return h("section", { class: "card" }, h("h2", {}, "What they hold"), h("p", {}, found.captured), h("p", { class: "small soft" }, "After ± stands the standard error by noise."));
}

function trust(found) {
  if (!found.components.length) return null;
  const rows = found.components.slice(0, 20).map((one, i) => [
    h("span", {}, h("span", { class: "w" }, "component "), i + 1), h("span", {}, share(one.agreement ?? 0, 0, 0, one.clear)),
    h("span", { class: "n" }, one.clear && one.agreement !== null ? percent(one.agreement) : "–"), one.clear ? h("span", { class: "v" }, "clear") : h("span", { class: "v no" }, icon("warn"), "not clear")]);
  return h("section", { class: "card" }, h("h2", {}, "How far each can be trusted"), h("p", { class: "small soft" }, "The bar is the ", term(found.measure, found.measure), ". It is about noise only."), h("div", { class: "rel" }, rows.flat()), found.groups.map((told) => h("p", {}, sentence(told))));
}

function certain(value, reach) {
  return reach !== null && Math.abs(value) > reach;
}

function loadings(found) {
  const shown = found.loadings;
  if (!shown) return null;
  const clear = found.components.map((one, i) => i).filter((i) => found.components[i].clear && i < shown.values.length);
  const list = clear.length ? clear.slice(0, 5) : [0];
  let by = list[0], all = shown.columns.length <= 16, wanted = "", phone = list[0];
  const largest = Math.max(...list.flatMap((i) => shown.values[i].map((x) => Math.abs(x ?? 0))), .01);
  const body = h("tbody"), headings = h("tr");
  const more = button("", () => { all = true; fill(); }, "slim");
  const errors = shown.errors.length > 0;
  const bar = (value, reach, error) => {
    const at = (x) => `${(50 + 50 * x / largest).toFixed(2)}%`;
    const low = Math.min(0, value), size = `${(50 * Math.abs(value) / largest).toFixed(2)}%`;
    const veil = Math.min(reach ?? largest, largest), inside = (x) => at(Math.max(-largest, Math.min(largest, x)));
    return s("svg", { "aria-hidden": "true" }, errors ? null : s("rect", { x: at(-veil), width: `${(100 * veil / largest).toFixed(2)}%`, y: 2, height: 14, class: "f-noise-soft" }),
      s("rect", { x: at(low), width: size, y: 4, height: 10, class: certain(value, reach) ? "f-signal" : "f-faint" }), s("line", { x1: "50%", x2: "50%", y2: 18, class: "axis" }),
      error ? s("line", { x1: inside(value - error), x2: inside(value + error), y1: 9, y2: 9, class: "l-ink" }) : null);
  };
  function fill() {
    headings.replaceChildren(h("th", { scope: "col" }, "column"), ...list.map((i) => h("th", { scope: "col", class: i === phone ? "" : "other", "aria-sort": i === by ? "descending" : null }, h("button", { type: "button", onclick: () => { by = phone = i; pick.value = i; fill(); } }, `component ${i + 1}${i === by ? " ↓" : ""}`))));
    const order = shown.columns.map((_, j) => j).filter((j) => shown.columns[j].toLowerCase().includes(wanted)).sort((a, b) => Math.abs(shown.values[by][b]) - Math.abs(shown.values[by][a]));
    const most = all || wanted ? order : order.slice(0, 14);
    body.replaceChildren(...most.map((j) => h("tr", {}, h("th", { scope: "row" }, shown.columns[j]), list.map((i) => h("td", { class: `${i === phone ? "" : "other"} ${certain(shown.values[i][j], shown.reach[i][j]) ? "" : "quiet"}` }, h("div", {}, h("span", { class: "num" }, signed(shown.values[i][j])), bar(shown.values[i][j], shown.reach[i][j], errors ? shown.errors[i][j] : null)))))));
    more.textContent = `Show all ${shown.columns.length} columns`;
    more.hidden = most.length === order.length;
    if (wanted) say(`${count(order.length, "column")} found`);
  }
  const find = h("input", { type: "search", class: "slim", placeholder: "Find a column", "aria-label": "Find a column", oninput: () => { wanted = find.value.trim().toLowerCase(); fill(); } });
  const pick = h("select", { class: "slim phone", "aria-label": "Component", onchange: () => { by = phone = +pick.value; fill(); } }, list.map((i) => h("option", { value: i }, `component ${i + 1}`)));
  fill();
  const cut = shown.all > shown.columns.length ? ` The heaviest ${shown.columns.length} of ${shown.all} columns.` : "";
  const left = shown.left_out.length ? h("p", { class: "small soft" }, `Left out, as no scale was found for them: ${shown.left_out.join(", ")}.`) : null;
  return h("section", { class: "card" }, h("div", { class: "row apart" }, h("h2", {}, "What the components are made of"), h("div", { class: "row" }, pick, find)),
    h("p", { class: "small soft" }, errors ? "Lines are one standard error to either side, from noise. Bars within three of them are grey: their sign is not certain. The sign of a whole " : "Shaded: how far noise alone reaches. Bars that end inside it are grey. The sign of a whole ", term("component", "component"), ` is arbitrary.${cut}`),
    clear.length ? null : notice("warn", "No component is clear of noise.", "Do not interpret these loadings."),
    h("table", { class: "loads" }, h("thead", {}, headings), body), more, left);
}

function scores(found) {
  if (!found.map) return null;
  const { maps, reach, column } = found.map;
  let map = maps[0];
  const plane = found.loadings.columns.map((name, j) => [name, found.loadings.values[0][j], found.loadings.values[1][j]]).sort((a, b) => Math.hypot(b[1], b[2]) - Math.hypot(a[1], a[2])).slice(0, 6);
  const blank = h("p", { class: "small soft" });
  const picture = chart((full) => {
    const cells = map.counts.flat(), most = Math.max(...cells, map.level), shown = cells.filter((x) => x > map.level).length;
    blank.textContent = `A private map of scores, component 2 upwards. Blank: fewer than ${number(map.level)}, which noise alone could show. Arrows are the columns that weigh most.`;
    const width = Math.min(full, 620), left = 52, top = 10, side = width - left - 20, bins = map.counts.length, cell = side / bins;
    const middle = [left + side / 2, top + side / 2], unit = .42 * side / Math.hypot(plane[0][1], plane[0][2]);
    const picture = drawing(full, top + side + 44, `${shown} of ${cells.length} cells are clear of noise. Columns that weigh most: ${plane.map((one) => one[0]).join(", ")}.`);
    map.counts.forEach((row, i) => row.forEach((value, j) => {
      if (value > map.level) picture.append(s("rect", { x: left + i * cell, y: top + side - (j + 1) * cell, width: cell - .6, height: cell - .6, class: `h${Math.max(1, Math.ceil(5 * Math.sqrt(value / most)))}` }));
    }));
    picture.append(s("line", { x1: left, x2: left + side, y1: middle[1], y2: middle[1], class: "grid" }), s("line", { x1: middle[0], x2: middle[0], y1: top, y2: top + side, class: "grid" }), s("rect", { x: left, y: top, width: side, height: side, class: "axis", fill: "none" }));
    const taken = [];
    for (const [name, a, b] of plane) {
      const x = middle[0] + unit * a, y = middle[1] - unit * b;
      let at = y + 4;
      while (taken.some(([p, q]) => Math.abs(q - at) < 15 && Math.abs(p - x) < 110)) at += 15;
      taken.push([x, at]);
      picture.append(s("line", { x1: middle[0], y1: middle[1], x2: x, y2: y, class: "l-ink" }), s("circle", { cx: x, cy: y, r: 3.5, class: "f-ink" }), text(x + (a >= 0 ? 7 : -7), at, name.slice(0, 18), "strong halo", a >= 0 ? "start" : "end"));
    }
    picture.append(text(left, top + side + 18, number(-reach[0]), "ax"), text(left + side, top + side + 18, number(reach[0]), "ax", "end"), text(left + side / 2, top + side + 38, "component 1 →", "ax", "middle"), text(left - 6, top + side, number(-reach[1]), "ax", "end"), text(left - 6, top + 12, number(reach[1]), "ax", "end"));
    return picture;
  });
  const which = h("select", { class: "slim", "aria-label": `Rows by ${column}`, onchange: () => { map = maps[+which.value]; picture.redraw(); } }, maps.map((one, i) => h("option", { value: i }, i ? `${column}: ${one.name}` : one.name)));
  return h("section", { class: "card" }, h("div", { class: "row apart" }, h("h2", {}, "Where the rows lie"), maps.length > 1 ? which : null), blank, picture);
}

function correlations(found) {
  const shown = found.correlations;
  if (!shown) return null;
  const every = shown.columns.map((_, i) => i);
  let part = every, wanted = "";
  const told = h("p", { class: "small", role: "status" }, "Choose a cell to see its value and to zoom in.");
  const reset = button("Show all", () => { part = every; wanted = find.value = ""; picture.redraw(); reset.hidden = true; }, "slim");
  reset.hidden = true;
  const shade = (value) => `d${Math.round(5 + 5 * Math.max(-1, Math.min(1, value)))}`;
  const words = (i, j) => { const value = shown.values[i][j]; return `${shown.columns[i]} and ${shown.columns[j]}: ${value === null ? "a variance that noise alone could have" : `${signed(value)}, noise about ${number(shown.noise[i][j], 2)}`}.`; };
  const zoom = (i, j) => {
    told.textContent = words(i, j);
    if (part.length <= 12) return;
    const near = (k) => every.filter((m) => Math.abs(m - k) <= 2);
    part = [...new Set([...near(i), ...near(j)])].sort((a, b) => a - b); reset.hidden = false; picture.redraw();
  };
  const picture = chart((full) => {
    const letters = full < 520 ? 10 : 18, left = 8 * letters, width = Math.min(full, 760), cell = (width - left - 4) / part.length, top = 4, label = cell >= 13;
    const drawn = drawing(full, top + cell * part.length + 8, `Correlations of ${part.length} columns. Strongest: ${shown.strongest.slice(0, 3).map(([a, b, value]) => `${a} and ${b} ${signed(value)}`).join(", ")}.`);
    drawn.classList.add("map");
    part.forEach((i, row) => {
      if (label) drawn.append(text(left - 6, top + (row + .5) * cell + 4, shown.columns[i].slice(0, letters), "ax", "end"));
      part.forEach((j, column) => {
        const value = shown.values[i][j];
        drawn.append(s("rect", { x: left + column * cell, y: top + row * cell, width: cell - .5, height: cell - .5, class: value === null ? "f-track" : shade(value), onclick: () => zoom(i, j), onpointerenter: () => { told.textContent = words(i, j); } }));
        if (cell > 38 && value !== null) drawn.append(text(left + (column + .5) * cell, top + (row + .5) * cell + 4, signed(value), `halo`, "middle"));
      });
    });
    return drawn;
  });
  const find = h("input", { type: "search", class: "slim", placeholder: "Find columns", "aria-label": "Find columns", oninput: () => { wanted = find.value.trim().toLowerCase(); const some = every.filter((i) => shown.columns[i].toLowerCase().includes(wanted)); part = wanted && some.length ? some : every; reset.hidden = part === every; picture.redraw(); } });
  return h("section", { class: "card" }, h("div", { class: "row apart" }, h("h2", {}, "How columns go together"), h("div", { class: "row" }, reset, find)),
    h("p", { class: "small soft" }, "Blue: together. Amber: against one another. Grey: a variance that noise alone could have."), picture, told,
    h("details", { open: true }, h("summary", {}, "Strongest pairs"), h("table", { class: "data" }, h("thead", {}, h("tr", {}, ["columns", "correlation", "noise"].map((title) => h("th", { scope: "col" }, title)))), h("tbody", {}, shown.strongest.map(([a, b, value, noise]) => h("tr", {}, h("td", {}, `${a}, ${b}`), h("td", { class: "num" }, signed(value)), h("td", { class: "num" }, `± ${number(noise, 2)}`)))))));
}

function coefficients(found) {
  return found.coefficients.map((one) => {
    const clear = one.clear.filter(Boolean).length, most = Math.max(...one.low.map(Math.abs), ...one.high.map(Math.abs));
    const shown = one.columns.slice(0, 24);
    const picture = chart((width) => {
      const left = Math.min(170, width * .38), right = 16, x = (value) => left + (width - left - right) * (value / most + 1) / 2;
      const drawn = drawing(width, shown.length * 26 + 20, `${clear} of ${one.columns.length} coefficients can be told from zero.`);
      drawn.append(s("line", { x1: x(0), x2: x(0), y1: 0, y2: shown.length * 26, class: "axis" }));
      shown.forEach((name, i) => {
        const y = i * 26 + 14, look = one.clear[i] ? "f-signal" : "f-faint";
        drawn.append(text(left - 8, y + 4, name.slice(0, 20), one.clear[i] ? "strong" : "ax", "end"), s("rect", { x: x(one.low[i]), width: Math.max(1, x(one.high[i]) - x(one.low[i])), y: y - 2, height: 4, class: look }), s("circle", { cx: x(one.values[i]), cy: y, r: 5, class: look }));
      });
      return drawn;
    });
    return h("section", { class: "card" }, h("h2", {}, `${clear} of ${count(one.columns.length, "coefficient")} for ${one.target} can be told from zero`), h("p", { class: "small soft" }, "Each times the scale of its column. Lines are intervals that allow for the noise; grey ones hold zero."), picture,
      numbers(["column", "coefficient", "from", "to"], one.columns.map((name, i) => [name, number(one.values[i]), number(one.low[i]), number(one.high[i])])));
  });
}

function owners(found) {
  return found.owners.length ? h("section", { class: "card" }, h("h2", {}, "What each owner promises"), found.owners.map((owner) => h("details", {}, h("summary", {}, owner.name), h("p", { class: "small" }, owner.sentence)))) : null;
}

async function comparing(box, first, second, signal) {
  let found;
  try { found = await api.get("compare", { first, second }, signal); } catch (error) { box.replaceChildren(notice("warn", sentence(error.message))); return; }
  const short = (name) => (name.startsWith("received:") ? "this release" : name);
  box.replaceChildren(h("section", { class: "card" }, h("h2", {}, `Compared with ${second}`), h("p", { class: "small soft" }, "Comparing costs nothing."),
    h("table", { class: "data" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }), h("th", { scope: "col" }, short(first)), h("th", { scope: "col" }, second))), h("tbody", {}, found.rows.map(([name, left, right]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, left), h("td", {}, right))))),
    found.agreement.length ? h("table", { class: "data" }, h("thead", {}, h("tr", {}, ["component", `${found.measures[0]} here`, `${found.measures[1]} there`, "nearest there", "direction in common"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, found.agreement.map((one) => h("tr", {}, h("th", { scope: "row" }, one.component), h("td", {}, one.first !== null ? percent(one.first) : "not clear"), h("td", {}, one.second !== null ? percent(one.second) : "not clear"), h("td", {}, `component ${one.nearest}`), h("td", {}, percent(one.shared))))))
      : notice("warn", sentence(found.why))));
}
