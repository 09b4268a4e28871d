// The tab Plan and release: columns and budget, the promise, the run, and the report.
import { api, button, chart, count, cry, dock, drawing, gauge, go, h, hatched, head, icon, key, notice, number, percent, refresh, s, say, share, state, statement, term, text, tile, where } from "./studio.js";

const STEPS = ["Columns and budget", "Confirm", "Run", "Report"];
const ROUND = [0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 7, 10];
const STORED = "eigenveil-plan-2";

export async function show(main, [step, id], signal) {
  if (step === "run") return running(main, id, signal);
  if (step === "table") { state.table = id; where(id); }
  state.table ||= stored().table; // of this tab, before it was loaded again
  if (!state.tables.includes(state.table)) await refresh();
  if (!state.tables.includes(state.table)) return choosing(main);
  const found = await api.get("table", { name: state.table }, signal);
  const form = remembered(found);
  if (step === "confirm") return confirming(main, found, form, signal);
  await planning(main, found, form, signal);
}

const sentence = (words) => words[0].toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");
function steps(now) {
  return h("ol", { class: "steps", "aria-label": "Steps" }, STEPS.map((name, i) => h("li", { class: i < now ? "done" : null, "aria-current": i === now ? "step" : null }, h("b", {}, i < now ? "✓" : i + 1), h("span", {}, name))));
}

// Choosing a table --------------------------------------------------------------------------------

function choosing(main) {
  const unnamed = state.unnamed ? notice("warn", `${count(state.unnamed, "file")} of this folder cannot be listed.`, "Their names are not UTF-8: rename them to use them here.") : null;
  const made = async () => { const { name } = await api.post("sample"); await refresh(); go("plan", "table", name); };
  const list = state.tables.length ? h("section", { class: "card" }, h("h2", {}, "Tables in this folder"), h("ul", { class: "log" }, state.tables.map((name) => h("li", {}, h("a", { href: `#plan/table/${encodeURIComponent(name)}` }, name))))) : null;
  const runs = state.runs.filter((run) => run.state === "running");
  main.replaceChildren(head("Plan a release", "Choose a table. It stays on this computer; only the names of its columns are shown."),
    h("div", { class: "stack" }, runs.map((run) => notice("info", `A run is at work: ${run.about.output}.`, "", button("See the run", () => go("plan", "run", run.id), "slim"))), unnamed, list,
      h("div", { class: "drop" }, h("h2", {}, list ? "Or try it first" : "No table yet"), h("p", { class: "soft" }, `Put a CSV, parquet or Excel file into the folder ${state.folder}. It is not sent anywhere.`),
        h("div", { class: "row" }, list ? null : button("Look again", async () => { await refresh(); choosing(main); }, "go"), button("Try the sample table", made)))));
}

// What was chosen, kept in this tab until it is closed ---------------------------------------------

function remembered(found) {
  const ids = found.columns.filter((column) => column.kind === "id").map((column) => column.name);
  const numbers = found.columns.filter((column) => column.kind === "number").map((column) => column.name);
  const usual = { table: found.name, of: "components", columns: numbers, unit: ids[0] || null, encode: {}, k: Math.max(1, Math.min(5, numbers.length - 1)), epsilon: 1, delta: 1e-6, scale: numbers.length > 1 ? "private" : "same", missing: "raise", adjacency: "replace-one", rows: null, bounds: {}, show_scores: false, spectrum: "decaying", ledger: found.ledger, output: found.output, title: "", purpose: "", owner: "", approver: "", sign: "" };
  const kept = stored();
  const names = found.columns.map((column) => column.name);
  const fits = kept.table === found.name && kept.columns.every((name) => names.includes(name)) && (!kept.unit || names.includes(kept.unit));
  return fits ? { ...usual, ...kept, output: state.releases.includes(kept.output) ? found.output : kept.output } : usual;
}
function stored() { try { return JSON.parse(sessionStorage.getItem(STORED)) || {}; } catch { return {}; } }
const keep = (form) => sessionStorage.setItem(STORED, JSON.stringify(form));

// Columns and budget --------------------------------------------------------------------------------

async function planning(main, found, form, signal) {
  const drawn = { plan: null, curve: new Map(), at: "" };
  const boxes = { curve: h("div"), tiles: h("div"), weak: h("div"), trust: h("div"), ledger: h("div"), same: h("div") };
  const right = h("div", { class: "stack", id: "expected", "aria-live": "off" });
  const left = h("div", { class: "stack" });
  let asking = new AbortController(), timer = 0;

  function changed(shape = true) {
    keep(form);
    if (shape) drawn.curve.clear();
    clearTimeout(timer);
    right.classList.add("faded"); right.setAttribute("aria-busy", "true");
    timer = setTimeout(predict, 180);
    docked();
  }

  async function predict() {
    asking.abort(); asking = new AbortController();
    const stop = AbortSignal.any([asking.signal, signal]);
    const slow = setTimeout(() => say(`Predicting for epsilon ${form.epsilon}`), 300);
    try {
      const answer = await api.post("plan", form, stop);
      drawn.plan = answer;
      if (answer.prediction) drawn.curve.set(form.epsilon, answer.prediction);
      redraw();
      right.classList.remove("faded"); right.removeAttribute("aria-busy");
      await curve(stop);
    } catch (error) {
      if (stop.aborted) return;
      drawn.plan = null;
      right.classList.remove("faded"); right.removeAttribute("aria-busy");
      right.replaceChildren(notice("warn", sentence(error.message)));
      cry(error.message);
    } finally { clearTimeout(slow); }
  }

  async function curve(stop) {
    if (form.of !== "components" || !drawn.plan?.prediction) return;
    for (const epsilon of [0.1, 3, 0.5, 0.2, 1, 2, 0.05, 0.3, 0.7, 1.5, 5, 10].filter((each) => each <= top())) {
      if (drawn.curve.has(epsilon)) continue;
      const answer = await api.post("curve", { ...form, epsilon }, stop);
      drawn.curve.set(epsilon, answer.prediction || null);
      picture?.redraw();
    }
  }

  // The slider, on a logarithmic scale.
  const low = 0.05;
  const top = () => Math.max(3, Math.min(10, (drawn.plan?.ledger?.granted ?? 3)), form.epsilon);
  const place = (epsilon) => Math.log(epsilon / low) / Math.log(top() / low);
  const nice = (epsilon) => Number(epsilon.toPrecision(epsilon < 1 ? 1 : 2));
  const slider = h("input", { type: "range", min: 0, max: 1, step: 0.001, "aria-label": "epsilon", id: "slider",
    oninput: () => choose(nice(low * (top() / low) ** slider.value)),
    onkeydown: (event) => {
      const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (!way) return;
      event.preventDefault();
      const sorted = way > 0 ? ROUND.find((each) => each > form.epsilon * 1.0001 && each <= top()) : ROUND.findLast((each) => each < form.epsilon * 0.9999);
      if (sorted) choose(sorted);
    } });
  const box = h("input", { type: "text", inputmode: "decimal", "aria-label": "epsilon", id: "epsilon", value: form.epsilon, onchange: () => { const value = Number(box.value.replace(",", ".")); if (value > 0 && value <= 100) choose(value); else box.value = form.epsilon; } });
  function choose(epsilon) { form.epsilon = epsilon; box.value = epsilon; slider.value = place(epsilon); picture?.redraw(); changed(false); }

  let picture = null;
  function kept(prediction) { return prediction ? 1 - prediction.error : null; }

  function redraw() {
    const plan = drawn.plan, prediction = plan.prediction;
    const unit = plan.unit === "row" ? "row" : "person";
    if (plan.refused) {
      right.replaceChildren(budgetCard(plan), notice("warn", sentence(plan.refused)), ledgerCard(plan));
      cry(plan.refused);
      return;
    }
    const words = form.of === "components" && prediction.error !== null ? `${percent(1 - prediction.error, 1)} of the variance kept` : "";
    slider.setAttribute("aria-valuetext", `epsilon ${form.epsilon}${words ? `, ${words}` : ""}`);
    const most = (/at most ([\d.]+ %)/.exec(plan.promise)?.[1] || "").replace(" ", "\u00a0");
    const clear = prediction.reliability.filter(([mean]) => mean >= 0.5).length;
    const assumed = "if the table is as assumed", standardises = plan.mechanism === "correlation";
    const tiles = h("dl", { class: "tiles three" }, tile(`What ε = ${number(form.epsilon)} promises`, ["50\u00a0%", h("i", {}, " → at most "), most], "", `${plan.promise}.`),
      form.of === "components" ? [tile("Variance kept", prediction.error === null ? "–" : percent(1 - prediction.error, 1), "", ["of what ordinary PCA keeps, ", term(standardises ? "as measured on real tables" : assumed, "variance")]), prediction.reliability.length ? tile("Clear components", clear, `of ${prediction.reliability.length}`, standardises ? assumed : "under the same assumption") : null]
        : tile("Relative error", prediction.error === null ? "–" : number(prediction.error, 2), "", prediction.error === null ? sentence(prediction.why || "not predicted") : `${number(prediction.low, 2)} to ${number(prediction.high, 2)} in 8 of 10 releases; that of an empty matrix is 1`));
    const weak = [...plan.weaknesses.map((each) => notice("warn", sentence(each)))];
    if (prediction.reliability.length && clear < prediction.reliability.length) weak.push(notice("warn", `Expect ${count(clear, "clear component")}, not ${prediction.reliability.length}.`, "The others would be noise.", clear ? button(`Ask for ${clear}`, () => { form.k = clear; render(); changed(); }, "slim") : null, button("Spend more", () => choose(ROUND.find((each) => each > form.epsilon) ?? form.epsilon), "slim")));
    right.replaceChildren(budgetCard(plan), tiles, ...weak, trustCard(prediction), ledgerCard(plan), sameCard(plan));
    say(words || `A ${unit} is protected at epsilon ${form.epsilon}`);
  }

  function budgetCard(plan) {
    picture = form.of === "components" && plan.prediction ? chart((width) => drawCurve(width, plan)) : null;
    slider.value = place(form.epsilon);
    const about = `Predicted from public numbers: ${count(plan.rows ?? 0, plan.unit)}, ${count(plan.columns, "column")}${form.of === "components" ? `, ${count(plan.k, "component")}` : ""}. Moving the slider spends nothing.`;
    return h("section", { class: "card" }, h("div", { class: "row apart" }, h("div", {}, h("h2", {}, "How much privacy to spend"), h("p", { class: "small soft" }, about)), h("label", { class: "epsbox" }, term("ε", "epsilon"), " =", box)),
      picture ? [h("p", { class: "small soft" }, "Variance kept; the band holds 8 of 10 releases"), picture] : null, h("div", { class: "slide" }, slider),
      h("div", { class: "ends small soft" }, h("span", {}, "← more private"), plan.ledger ? h("span", {}, `the ledger allows up to ε = ${number(plan.ledger.largest, 4)}`) : null, h("span", {}, "more accurate →")));
  }

  function drawCurve(width, plan) {
    const height = width < 500 ? 210 : 250, left = 46, right = 14, up = 24, base = height - 30;
    const points = [...drawn.curve.entries()].filter(([, one]) => one?.error !== null && one).sort((a, b) => a[0] - b[0]);
    const lowest = Math.max(0, Math.floor(10 * Math.min(.9, ...points.map(([, one]) => 1 - one.high))) / 10);
    const x = (epsilon) => left + (width - left - right) * place(epsilon), y = (value) => base - (base - up) * (value - lowest) / (1 - lowest);
    const now = drawn.curve.get(form.epsilon), value = kept(now);
    const picture = drawing(width, height, value === null || now?.error === null ? "Variance kept for each epsilon." : `At epsilon ${form.epsilon}, ${percent(value, 1)} of the variance is kept; between ${percent(1 - now.high, 1)} and ${percent(1 - now.low, 1)} in 8 of 10 releases.`);
    for (let tick = 0; tick <= 5; tick += 1) {
      const share = lowest + (1 - lowest) * tick / 5;
      picture.append(s("line", { x1: left, x2: width - right, y1: y(share), y2: y(share), class: tick === 5 ? "axis" : "grid" }), text(left - 6, y(share) + 4, percent(share), "ax", "end"));
    }
    picture.append(text(width - right, up - 8, width < 500 ? "100 % = ordinary PCA" : "100 % = ordinary PCA, no privacy", "ax", "end"));
    if (points.length > 1) {
      const upper = points.map(([epsilon, one]) => `${x(epsilon).toFixed(1)},${y(1 - one.low).toFixed(1)}`), lower = points.map(([epsilon, one]) => `${x(epsilon).toFixed(1)},${y(1 - one.high).toFixed(1)}`).reverse();
      picture.append(s("polygon", { points: [...upper, ...lower].join(" "), class: "f-soft" }), s("polyline", { points: points.map(([epsilon, one]) => `${x(epsilon).toFixed(1)},${y(1 - one.error).toFixed(1)}`).join(" "), class: "l-signal" }));
    }
    const largest = plan.ledger?.largest;
    if (largest !== undefined && largest < top()) { const from = largest > low ? x(largest) : left; picture.append(s("rect", { x: from, width: Math.max(0, width - right - from), y: up, height: base - up, fill: hatched() })); }
    for (const epsilon of ROUND.filter((each) => each <= top() && (width > 500 || [0.05, 0.2, 1, 3, 10].includes(each)) && [0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 10].includes(each))) picture.append(text(x(epsilon), base + 18, epsilon, "ax", "middle"), s("line", { x1: x(epsilon), x2: x(epsilon), y1: base, y2: base + 4, class: "axis" }));
    picture.append(s("line", { x1: left, x2: width - right, y1: base, y2: base, class: "axis" }), s("line", { x1: x(form.epsilon), x2: x(form.epsilon), y1: value === null ? up : y(value), y2: base, class: "l-ink" }));
    if (value !== null && now.error !== null) {
      const leftward = place(form.epsilon) > .45, at = x(form.epsilon) + (leftward ? -12 : 12), anchor = leftward ? "end" : "start", under = Math.min(Math.max(y(value) + 30, up + 40), base - 44);
      picture.append(s("circle", { cx: x(form.epsilon), cy: y(value), r: 6, class: "f-ink" }), text(at, under, `${percent(value, 1)} kept`, "strong halo", anchor), text(at, under + 17, "8 of 10 releases:", "ax halo", anchor), text(at, under + 33, `${percent(1 - now.high, 1)} to ${percent(1 - now.low, 1)}`, "ax halo", anchor));
    }
    return picture;
  }

  function trustCard(prediction) {
    if (!prediction.reliability.length) return null;
    const rows = prediction.reliability.slice(0, 20).map(([mean, down, upTo], i) => {
      const clear = mean >= 0.5, verdict = clear ? (down < 0.5 ? "unsure" : "clear") : upTo >= 0.5 ? "unsure" : "not clear";
      return [h("span", {}, h("span", { class: "w" }, "component "), i + 1), h("span", {}, share(mean, down, upTo, clear || upTo >= .5)), h("span", { class: "n" }, clear ? percent(mean) : "–"), verdict === "clear" ? h("span", { class: "v" }, verdict) : h("span", { class: "v no" }, icon("warn"), verdict)];
    });
    const assume = h("select", { class: "slim", "aria-label": "Assumed variances", onchange: () => { form.spectrum = assume.value; changed(); } }, [["decaying", "fall as 1, 1/2, 1/3 …"], ["steep", "fall as 1, 1/4, 1/9 …"], ["flat", "are all equal"]].map(([value, words]) => h("option", { value, selected: value === form.spectrum }, words)));
    return h("section", { class: "card" }, h("h2", {}, "Which components to expect"), h("p", { class: "small soft" }, "The bar is the ", term("reliability", "reliability"), "; lines show 8 of 10 releases. The band leaves out that your table may differ: it assumes variances that ", assume), h("div", { class: "rel" }, rows.flat()));
  }

  function ledgerCard(plan) {
    const ledger = plan.ledger;
    if (!ledger) return newLedger(found, form, plan, () => changed(false));
    const budget = `total ${ledger.notion === "rho" ? "ρ" : "ε"} = ${number(ledger.granted)}${ledger.delta ? ` at δ = ${number(ledger.delta)}` : ""}, protects ${ledger.unit === "person" ? "persons" : "rows"}`;
    const refused = ledger.refused ? notice("warn", ledger.after > ledger.granted ? `The ledger does not cover ε = ${number(form.epsilon)}.` : sentence(ledger.refused), ledger.after > ledger.granted ? `Ask for ${number(ledger.largest, 4)} or less.` : "", ledger.after > ledger.granted && ledger.largest > 0 ? button(`Use ε = ${number(ledger.largest, 4)}`, () => choose(ledger.largest), "slim") : null) : null;
    return h("section", { class: "card", id: "ledgerleft" }, h("h2", {}, "What the ", term("ledger", "ledger"), " has left"), h("p", { class: "small soft" }, `${ledger.file}, ${budget}`), gauge(ledger.before, ledger.before, ledger.granted, "Now"), gauge(ledger.before, ledger.after, ledger.granted, "After this release"),
      h("div", { class: "keys" }, key("f-ink", `spent before ${number(ledger.before)}`), key(ledger.covered ? "f-signal" : "f-noise-soft", `this release adds ${number(Math.max(0, ledger.after - ledger.before))}`), ledger.covered ? key("f-track", `not spent ${number(Math.max(0, ledger.granted - ledger.after))}`) : key("f-noise", `total granted ${number(ledger.granted)}`)),
      refused || h("p", { class: "small" }, "One more release may then ask for up to ", h("b", {}, `ε = ${number(ledger.largest_after, 4)}`), `, today ${number(ledger.largest, 4)}. `, h("span", { class: "soft" }, "Releases together cost less than the sum of their ε.")));
  }

  function sameCard(plan) {
    return h("details", { class: "card" }, h("summary", {}, "The same as a command"), h("pre", {}, plan.command), h("p", { class: "small soft" }, "The next page has the script and the notebook too."));
  }

  // The left column: who, which columns, how.
  function render() {
    const kinds = Object.fromEntries(found.columns.map((column) => [column.name, column.kind]));
    const ids = found.columns.filter((column) => column.kind !== "number").map((column) => column.name);
    const radio = (group, value, now, title, words, pick) => h("label", { class: "choice" }, h("input", { type: "radio", name: group, value, checked: value === now, onchange: () => { pick(); render(); changed(); } }), h("span", {}, h("b", {}, title)), words ? h("small", {}, words) : null);
    const unit = h("select", { class: "slim", "aria-label": "Column that says whose row it is", onchange: () => { form.unit = unit.value; form.columns = form.columns.filter((name) => name !== form.unit); render(); changed(); } }, found.columns.map(({ name }) => h("option", { value: name, selected: name === form.unit }, name)));
    const who = h("fieldset", { class: "card" }, h("legend", {}, "Who is protected"),
      radio("unit", "person", form.unit ? "person" : "row", "One person", ["All rows with the same value in ", form.unit ? unit : "one column", ". Choose this when a person can have several rows."], () => { form.unit = form.unit || ids[0] || found.columns[0].name; form.columns = form.columns.filter((name) => name !== form.unit); }),
      radio("unit", "row", form.unit ? "person" : "row", "One row", "A person with several rows is then protected less.", () => { form.unit = null; }));
    const words = found.columns.filter((column) => column.kind !== "number" && column.name !== form.unit);
    const numbers = found.columns.filter((column) => column.kind === "number" && column.name !== form.unit);
    const become = (name) => {
      const how = form.encode[name], now = !form.columns.includes(name) ? "out" : how === "private" ? "private" : how?.levels ? "levels" : how ? "date" : "number";
      const typed = now === "levels"
        ? h("textarea", { class: "slim", rows: Math.min(8, Math.max(3, how.levels.length + 1)), "aria-label": `Levels of ${name}, one in each line`, placeholder: "one level in each line,\nas cells have it", value: how.levels.join("\n"), onchange: () => { form.encode[name] = { levels: typed.value.split("\n").map((each) => each.trim()).filter(Boolean) }; changed(); } })
        : now === "date" ? h("input", { type: "date", class: "slim", "aria-label": `First day of ${name}`, value: how.date, onchange: () => { form.encode[name] = { date: typed.value }; changed(); } }) : null;
      const pick = h("select", { class: "slim", "aria-label": `What becomes of ${name}`, onchange: () => {
        form.columns = form.columns.filter((each) => each !== name); delete form.encode[name];
        if (pick.value !== "out") form.columns.push(name);
        if (pick.value === "private") form.encode[name] = "private";
        if (pick.value === "levels") form.encode[name] = { levels: [] };
        if (pick.value === "date") form.encode[name] = { date: "" };
        render(); changed();
      } }, [["out", "Leave out"], ["private", "Find its levels privately"], ["levels", "One column for each level"], ["date", "Days since a date"], ...(kinds[name] === "id" ? [["number", "Take as a number"]] : [])].map(([value, title]) => h("option", { value, selected: value === now }, title)));
      return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, pick, typed));
    };
    const chips = numbers.map(({ name }) => h("li", {}, h("label", {}, h("input", { type: "checkbox", value: name, checked: form.columns.includes(name), onchange: (event) => { form.columns = event.target.checked ? [...form.columns, name] : form.columns.filter((each) => each !== name); changed(); } }), name)));
    const all = (on) => { const out = new Set(numbers.map(({ name }) => name)); form.columns = form.columns.filter((name) => !out.has(name)); if (on) form.columns.push(...out); render(); changed(); };
    const columns = h("fieldset", { class: "card" }, h("legend", {}, "Columns"), h("p", { class: "small soft" }, `${found.columns.length} in the header. Only names are shown; no value leaves the table.`),
      words.length ? h("table", { class: "fields" }, h("caption", {}, "Not numbers ", h("span", {}, count(words.length, "column"))), h("tbody", {}, words.map(({ name }) => become(name)))) : null,
      h("div", { class: "row apart caption" }, h("span", {}, "Numbers ", h("span", { class: "soft" }, `${numbers.filter(({ name }) => form.columns.includes(name)).length} of ${numbers.length} kept`)), h("span", { class: "row" }, button("All", () => all(true), "slim"), button("None", () => all(false), "slim"))), h("ul", { class: "chips" }, chips));
    const k = h("input", { type: "number", min: 1, max: 500, value: form.k, onchange: () => { form.k = Math.max(1, Math.round(+k.value || 1)); changed(); } });
    const scores = h("input", { type: "checkbox", checked: form.show_scores, onchange: () => { form.show_scores = scores.checked; changed(); } });
    const what = h("fieldset", { class: "card stack" }, h("legend", {}, "What is released"),
      h("div", {}, radio("of", "components", form.of, "Principal components", "Directions in which columns vary together.", () => { form.of = "components"; }), radio("of", "covariance", form.of, "Covariance matrix", "How each two columns go together.", () => { form.of = "covariance"; })),
      form.of === "components" ? [h("label", { class: "field" }, "Number of components", k), h("label", { class: "check" }, scores, h("span", {}, "A map of where rows lie ", h("span", { class: "small soft" }, "uses a tenth of the budget")))] : null);
    const bounds = found.columns.filter(({ name }) => form.columns.includes(name) && !form.encode[name]).map(({ name }) => {
      const field = (i, label) => h("input", { type: "number", step: "any", class: "slim", "aria-label": `${label} of ${name}`, value: form.bounds[name]?.[i] ?? "", onchange: (event) => { const pair = form.bounds[name] || [null, null]; pair[i] = event.target.value === "" ? null : +event.target.value; if (pair[0] === null && pair[1] === null) delete form.bounds[name]; else form.bounds[name] = pair; changed(); } });
      return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, field(0, "Smallest value"), " ", field(1, "Largest value")));
    });
    const units = h("fieldset", { class: "card" }, h("legend", {}, "Units"), radio("scale", "private", form.scale || "same", "Columns have different units", form.of === "components" ? "Columns are standardised: components are those of their correlations. Uses a part of the budget." : "Scales are found privately. Uses a part of the budget.", () => { form.scale = "private"; }), radio("scale", "same", form.scale || "same", "All columns share one unit", "Columns are taken as they are. Spends nothing on scales.", () => { form.scale = "same"; }),
      h("details", {}, h("summary", {}, "Ranges of columns, if you know them"), h("p", { class: "small soft" }, "From a reference and never from this table. Give all of them or none. They replace private scales."), h("table", { class: "fields" }, h("tbody", {}, bounds))));
    const rows = h("input", { type: "number", min: 1, value: form.rows ?? "", onchange: () => { form.rows = +rows.value || null; changed(); } });
    const missing = h("select", { onchange: () => { form.missing = missing.value; changed(); } }, [["raise", "A missing value stops the run"], ["centre", "A missing value is put at the centre"], ["zero", "A row with one contributes nothing, which shrinks variances"]].map(([value, title]) => h("option", { value, selected: value === form.missing }, title)));
    const delta = h("input", { type: "text", inputmode: "decimal", "aria-label": "delta", value: form.delta ?? "", onchange: () => { form.delta = delta.value.trim() === "" ? null : +delta.value; changed(); } });
    const more = h("details", { class: "card stack" }, h("summary", {}, "More choices"), h("label", { class: "field" }, "Missing values", missing), h("label", { class: "field" }, h("span", {}, term("Delta", "delta"), " (empty for a pure guarantee)"), delta),
      h("label", { class: "check" }, h("input", { type: "checkbox", checked: form.adjacency === "add-remove", onchange: (event) => { form.adjacency = event.target.checked ? "add-remove" : "replace-one"; render(); changed(); } }), h("span", {}, "The number of rows is private too")),
      form.adjacency === "add-remove" ? h("label", { class: "field" }, "A public guess at the number of rows, for predictions", rows) : null);
    left.replaceChildren(who, columns, what, units, more);
  }

  function docked() {
    const ok = () => drawn.plan && !drawn.plan.refused && drawn.plan.ledger && !drawn.plan.ledger.refused;
    dock(h("p", {}, h("b", {}, `${form.of === "components" ? `${count(form.k, "component")} of` : "Covariance of"} ${count(form.columns.length, "column")}, ε = ${number(form.epsilon)}`), h("br"), h("span", { class: "soft small" }, "Planning spends nothing.")),
      button("Review the promise", () => {
        if (ok() && right.getAttribute("aria-busy") !== "true") { keep(form); go("plan", "confirm"); return; }
        const why = !drawn.plan || right.getAttribute("aria-busy") === "true" ? "The prediction is not there yet." : !drawn.plan.ledger ? "Start a ledger first: it keeps count of what is spent." : "This cannot be released as it is: see the message on the page.";
        cry(why); say(why);
        document.querySelector("#expected .notice, #newledger")?.scrollIntoView({ block: "center" });
      }, "go"));
  }

  where(found.name);
  main.replaceChildren(head(`Plan a release of ${found.name}`, "Choose who is protected and how much to spend. Nothing is spent until you confirm.", steps(0)), h("div", { class: "cols plan" }, left, right));
  right.append(h("p", { class: "soft" }, "Predicting …"));
  render(); docked();
  await predict();
}

function newLedger(found, form, plan, done) {
  const total = h("input", { type: "text", inputmode: "decimal", value: Math.max(3, Math.ceil(2 * form.epsilon)), id: "total" });
  const told = h("div");
  const start = async () => {
    try {
      await api.post("ledger/new", { name: form.ledger, epsilon: Number(total.value.replace(",", ".")), delta: form.delta, unit: form.unit ? "person" : "row", adjacency: form.adjacency });
      say(`${form.ledger} was started`); done();
    } catch (error) { told.replaceChildren(notice("warn", sentence(error.message))); }
  };
  return h("section", { class: "card stack", id: "newledger" }, h("h2", {}, "This table has no ", term("ledger", "ledger"), " yet"), h("p", { class: "small soft" }, `It keeps count of all releases from ${found.name}, in ${form.ledger}. Choose the total for all of them; it cannot be changed later.`),
    h("label", { class: "field" }, `Total ε for this table${form.delta ? `, at δ = ${number(form.delta)}` : ""}`, total), h("div", { class: "row" }, button("Start the ledger", start)), told);
}

// Confirm -------------------------------------------------------------------------------------------

async function confirming(main, found, form, signal) {
  main.replaceChildren(head("Check what will be promised", "Counting rows …", steps(1)));
  let told;
  try { told = await api.post("promise", form, signal); } catch (error) {
    if (signal.aborted) return;
    cry(error.message);
    main.replaceChildren(head("This cannot be released", found.name, steps(1)), h("div", { class: "stack" }, notice("warn", sentence(error.message), "", button("Back to the plan", () => go("plan"), "slim"))));
    return;
  }
  const field = (name, title, more) => { const input = h("input", { type: "text", value: form[name], oninput: () => { form[name] = input.value; keep(form); } }); return h("label", { class: "field" }, title, more ? h("span", {}, more) : null, input); };
  const keys = state.keys.filter((name) => name.endsWith(".pem"));
  const sign = h("select", { onchange: () => { form.sign = sign.value; keep(form); } }, h("option", { value: "" }, "Do not sign"), keys.map((name) => h("option", { value: name, selected: name === form.sign }, name)));
  const sure = h("input", { type: "checkbox", id: "sure" });
  const warning = h("div");
  const spend = button(`Spend ε = ${number(form.epsilon)} and release`, async () => {
    if (!sure.checked) { warning.replaceChildren(notice("warn", "Tick the box first.", "It says that this cannot be undone.")); sure.focus(); return; }
    spend.disabled = true;
    try { const { id } = await api.post("run/start", { ...form, confirmed: true, receipt: told.receipt }); go("plan", "run", id); } catch (error) {
      spend.disabled = false;
      warning.replaceChildren(error.code > 1 ? notice("warn", sentence(error.message), "No run was started.", button("Look at the promise again", () => confirming(main, found, form, signal), "slim"))
        : notice("warn", sentence(error.message), "The run may have started all the same. The ledger tells.", button("See the ledger", () => go("ledger", form.ledger), "slim")));
      cry(error.message);
    }
  }, "spend");
  const left = found.columns.map((column) => column.name).filter((name) => !form.columns.includes(name) && name !== form.unit);
  const prediction = told.prediction, ledger = told.ledger;
  const facts = [["Table", `${found.name}, ${told.rows === null ? "a private number of rows" : count(told.rows, form.unit ? "person" : "row")}`], ["Result", `${form.of === "components" ? count(form.k, "principal component") : "covariance matrix"} of ${count(form.columns.length, "column")}${form.scale === "private" && !Object.keys(form.bounds).length ? form.of === "components" ? ", standardised" : ", with private scales" : ""}`], ["Left out", left.join(", ") || "nothing"], ...told.encoded.map(([name, words]) => [`What becomes of ${name}`, words]), ["Method", `${told.mechanism}: ${told.reason}`],
    ["Expected", prediction.error === null ? prediction.why || "not predicted" : form.of === "components" ? `${percent(1 - prediction.error, 1)} of the variance ${told.mechanism === "correlation" ? `of standardised columns that any ${count(form.k, "component")} could hold` : "kept"} (${percent(1 - prediction.high, 1)} to ${percent(1 - prediction.low, 1)} in 8 of 10 releases${told.mechanism === "correlation" ? " of real tables)" : "), if the table is as assumed"}` : `relative error ${number(prediction.error, 2)}, if the table is as assumed`], ["Folder", `${form.output}, next to the table`]];
  const file = (name, words, type) => h("a", { class: "btn slim", download: name, href: URL.createObjectURL(new Blob([words], { type })) }, `Download ${name}`);
  main.replaceChildren(head("Check what will be promised", "This text becomes part of the release, with what is chosen privately added. A privacy officer can read and sign it.", steps(1)),
    h("div", { class: "cols confirm" }, h("div", { class: "stack" }, statement(told.promise, ""), h("section", { class: "card" }, h("h2", {}, "What will be released"), h("table", { class: "data" }, h("tbody", {}, facts.map(([name, words]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, words)))))),
      h("details", { class: "card" }, h("summary", {}, "The same as a command, a script or a notebook"), h("pre", {}, told.command), h("pre", {}, told.script), h("div", { class: "row" }, file("release.py", told.script, "text/x-python"), file("release.ipynb", told.notebook, "application/x-ipynb+json")))),
    h("div", { class: "stack" }, h("section", { class: "card stack" }, h("h2", {}, "For the record"), field("title", "Title"), field("purpose", "Purpose"), field("owner", "Data owner"), field("approver", "Approver", "signs the page afterwards"), field("output", "Folder"), keys.length ? h("label", { class: "field" }, "Sign with", sign) : null),
      h("section", { class: "card stack" }, h("h2", {}, "What it costs"), gauge(ledger.before, ledger.after, ledger.granted, "After this release"), h("div", { class: "keys" }, key("f-ink", `before ${number(ledger.before)}`), key("f-signal", `adds ${number(ledger.after - ledger.before)}`)), h("label", { class: "check" }, sure, h("span", {}, "I know that this cannot be undone. A run that fails after the charge still counts as spent.")), warning, spend, button("Back, nothing is spent", () => go("plan"))))));
  document.getElementById("main").focus();
}

// Run -----------------------------------------------------------------------------------------------

async function running(main, id, signal) {
  const box = h("div", { class: "stack" });
  const ask = async (path) => (path === "stop" ? api.post("run/stop", { id }) : api.get("run", { id }, signal));
  let first;
  try { first = await ask(); } catch (error) { if (!signal.aborted) main.replaceChildren(head("This run is not known", ""), notice("warn", sentence(error.message), "", button("Look into the ledger", () => go("ledger"), "slim"))); return; }
  main.replaceChildren(head(`Releasing ${first.about.output}`, `From ${first.about.table}. You may close this page: the release is saved all the same.`, steps(2)), box);
  const bar = s("rect", { height: 12, width: "4%", class: "f-signal" });
  const what = h("p", { role: "status" }), more = h("p", { class: "small soft" });
  const stop = button("Stop the run", async () => { stop.disabled = true; what.textContent = "Stopping …"; try { await ask("stop"); } catch { /* the next answer says how it stands */ } });
  box.replaceChildren(h("section", { class: "card stack" }, what, h("div", { class: "progress" }, s("svg", { "aria-hidden": "true" }, bar)), more, h("div", { class: "row" }, stop)));
  for (let run = first; !signal.aborted; ) {
    if (run.state !== "running") { await refresh(); ended(main, box, run); return; }
    const step = run.progress;
    if (!run.stopping) what.textContent = !step ? "Starting" : step.pass === null ? "Computing" : `Reading rows, pass ${step.pass}`;
    const part = step?.rows !== null && step?.of ? Math.max(.04, step.rows / step.of) : step ? .6 : .04;
    bar.setAttribute("width", `${(100 * part).toFixed(0)}%`);
    more.textContent = `${step?.rows && step.of ? `${step.rows.toLocaleString("en")} of ${count(step.of, "row")}. ` : ""}${run.seconds.toFixed(0)} seconds so far. The ledger is charged before any noise is drawn.`;
    await new Promise((done) => setTimeout(done, 250));
    try { run = await ask(); } catch (error) { if (!signal.aborted) box.append(notice("warn", sentence(error.message), "The run goes on by itself.")); return; }
  }
}

function ended(main, box, run) {
  const again = button("Plan again", () => go("plan"), "slim"), entry = button("See the ledger", () => go("ledger", run.about.ledger), "slim");
  if (run.state === "released") {
    main.replaceChildren(head(`${run.release.name} is released`, `From ${run.about.table}, ε = ${number(run.about.epsilon)}.`, steps(3)), h("div", { class: "stack" }, notice("good", "Released.", `The release is saved. ${sentence(run.money.words)}`),
      h("section", { class: "card stack" }, h("h2", {}, "What next"), h("p", {}, "Note the fingerprint where the release is not:"), h("p", { class: "print" }, run.release.fingerprint.match(/.{4}/g).join(" ")), h("div", { class: "row" }, button("Read the release", () => go("read", run.release.name), "go"), h("a", { class: "btn", href: api.address("release/report", { name: run.release.name }), target: "_blank", rel: "noopener" }, "Page to print and sign"), entry))));
    say("Released");
    return;
  }
  const charged = run.money.charged, stopped = run.state === "stopped";
  const lead = charged === null ? "The run ended, and did not say whether it was charged." : stopped ? (charged ? "The run was stopped after the charge." : "The run was stopped before the charge.") : charged ? "The run failed after the charge." : "The run was refused.";
  const words = [stopped ? "" : run.words, run.money.words, charged ? "a failed or interrupted release counts as spent" : ""].filter(Boolean);
  box.replaceChildren(notice(stopped && charged === false ? "info" : "warn", lead, words.map(sentence).join(" "), entry, again));
  cry(lead);
}
