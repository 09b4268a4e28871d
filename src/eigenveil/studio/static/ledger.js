// The tab Ledger: what was spent and when, and what one more release would leave.
import { api, chart, count, drawing, gauge, go, h, head, key, notice, number, refresh, s, state, term, text, tile, where } from "./studio.js";

export async function show(main, [name], signal) {
  await refresh();
  if (!name) name = state.ledgers.length === 1 ? state.ledgers[0] : state.table && state.ledgers.includes(`${state.table.split(".")[0]}.ledger`) ? `${state.table.split(".")[0]}.ledger` : null;
  if (!name) { main.replaceChildren(choosing()); return; }
  const found = await api.get("ledger", { name }, signal);
  where(name);
  const sign = found.notion === "rho" ? "ρ" : "ε";
  const others = state.ledgers.filter((each) => each !== name);
  const pick = h("select", { class: "slim", "aria-label": "Another ledger", onchange: () => pick.value && go("ledger", pick.value) }, h("option", { value: "" }, "Another ledger …"), others.map((each) => h("option", { value: each }, each)));
  const charges = found.entries.filter((entry) => entry.after > entry.before);
  main.replaceChildren(
    head(`Ledger ${name}`, `Protects ${found.unit === "person" ? "persons" : "rows"}, ${found.adjacency} neighbours · chain of ${found.entries.length === 1 ? "1 entry" : `${found.entries.length} entries`} intact`, h("div", { class: "row" }, others.length ? pick : null, h("a", { class: "btn slim", href: api.address("ledger/export", { name }), download: "" }, "CSV"))),
    h("div", { class: "stack" },
      h("dl", { class: "tiles" }, tile("Spent", number(found.spent, 4), `of ${sign} = ${number(found.granted)}`, found.delta ? `at δ = ${number(found.delta)}` : ""), tile("Largest next release", `${sign} = ${number(found.largest, 4)}`, "", found.why ? "More than the difference, because releases together cost less than the sum of their ε." : ""), tile("Releases", charges.length, "", charges.length ? `the newest on ${charges.at(-1).time.slice(0, 10)}` : "none yet")),
      charges.length ? history(found, charges, sign) : notice("info", "Nothing was spent yet."),
      h("div", { class: "cols half" }, entries(found, sign), next(found, sign)),
      h("details", { class: "card" }, h("summary", {}, "Note the newest hash"), h("p", { class: "small soft" }, "Kept elsewhere, it shows whether somebody cut off the newest lines."), h("p", { class: "print" }, found.newest_hash || "none"))));
}

function choosing() {
  return h("div", {}, head("Ledgers", "A ledger keeps count of all releases from one table."), state.ledgers.length
    ? h("section", { class: "card" }, h("h2", {}, "Ledgers in this folder"), h("ul", { class: "log" }, state.ledgers.map((name) => h("li", {}, h("a", { href: `#ledger/${encodeURIComponent(name)}` }, name)))))
    : notice("info", "There is no ledger in this folder yet.", "It is started with the first release, under Plan and release."));
}

function history(found, charges, sign) {
  const picture = chart((width) => {
    const height = 260, left = 40, right = width < 600 ? 12 : 130, top = 20, base = height - 30;
    const times = charges.map((entry) => Date.parse(entry.time)), first = Math.min(...times), last = Math.max(Date.now(), ...times), span = Math.max(1, last - first);
    const most = Math.max(found.granted, found.spent) * 1.05, y = (value) => base - (base - top) * value / most, x = (time) => left + 14 + (width - left - right - 14) * (time - first) / span;
    const picture = drawing(width, height, `${number(found.spent)} of ${number(found.granted)} spent in ${count(charges.length, "release")}.`);
    const path = charges.map((entry, i) => `L${x(times[i])} ${y(entry.before)}L${x(times[i])} ${y(entry.after)}`).join("");
    picture.append(s("path", { d: `M${left} ${base}${path}L${width - right} ${y(found.spent)}V${base}Z`, class: "f-soft" }), s("path", { d: `M${left} ${base}${path}L${width - right} ${y(found.spent)}`, class: "l-ink", fill: "none" }), s("line", { x1: left, x2: width - right, y1: base, y2: base, class: "axis" }),
      s("line", { x1: left, x2: width - right, y1: y(found.granted), y2: y(found.granted), class: "l-noise" }), width < 600 ? text(width - right, y(found.granted) - 6, `total granted ${number(found.granted)}`, "t-noise strong halo", "end") : text(width - right + 6, y(found.granted) + 4, `total granted ${number(found.granted)}`, "t-noise strong"),
      width < 600 ? text(width - right, y(found.spent) - 8, `${number(found.spent)} spent`, "strong halo", "end") : text(width - right + 6, y(found.spent) + 4, `${number(found.spent)} spent`, "strong"),
      text(left - 6, base + 4, "0", "ax", "end"), text(left - 6, y(found.granted) + 4, number(found.granted), "ax", "end"), text(left, base + 20, new Date(first).toISOString().slice(0, 10), "ax"), text(width - right, base + 20, "today", "ax", "end"));
    charges.forEach((entry, i) => picture.append(s("rect", { x: x(times[i]) - 4, width: 8, y: y(entry.after), height: Math.max(2, y(entry.before) - y(entry.after)), class: "f-ink" })));
    let labelled = -Infinity;
    charges.forEach((entry, i) => { if (x(times[i]) - labelled < 110) return; labelled = x(times[i]); const late = x(times[i]) > width * .6; picture.append(text(x(times[i]) + (late ? -10 : 10), Math.max(top + 8, y(entry.after) - 8), `${entry.number} ${entry.label}`, "ax halo", late ? "end" : "start")); });
    return picture;
  });
  return h("section", { class: "card" }, h("h2", {}, "What was spent, and when"), h("p", { class: "small soft" }, `A step is a charge, in ${sign}. A run that failed after its charge counts too.`), picture);
}

function entries(found, sign) {
  return h("section", { class: "card" }, h("h2", {}, "Entries"), found.entries.length ? h("table", { class: "data cards" }, h("thead", {}, h("tr", {}, ["no.", "when", "what", "cost", "spent after"].map((title, i) => h("th", { scope: "col", class: i === 4 ? "r" : null }, title)))),
    h("tbody", {}, [...found.entries].reverse().map((entry) => h("tr", {}, h("td", { "data-l": "no." }, entry.number), h("td", {}, entry.time.slice(0, 16).replace("T", " ")), h("th", { scope: "row", class: "full" }, entry.label), h("td", { class: "small full" }, entry.spent), h("td", { class: "r num", "data-l": "spent after" }, `${sign} ${number(entry.after, 4)}`)))))
    : h("p", { class: "soft" }, "None yet."));
}

function next(found, sign) {
  return h("section", { class: "card" }, h("h2", {}, "What one more release would leave"), found.next.length ? [h("table", { class: "data cards" }, h("thead", {}, h("tr", {}, ["release of", "", "spent in all", "largest next"].map((title, i) => h("th", { scope: "col", class: i > 1 ? "r" : null }, title)))),
    h("tbody", {}, found.next.map((one) => h("tr", {}, h("th", { scope: "row", class: "full" }, `${sign} = ${number(one.size)}`), h("td", { class: "mid full" }, gauge(one.before, one.after, one.granted, "", "thin")), h("td", { class: "r num", "data-l": "spent in all" }, number(one.after, 4)), h("td", { class: "r num", "data-l": "largest next" }, number(one.largest, 4)))))), h("div", { class: "keys" }, key("f-ink", "spent"), key("f-signal", "it would add"))]
    : h("p", { class: "soft" }, "The total is spent: this ledger covers no further release."));
}
