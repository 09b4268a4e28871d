// The tab Federation: who takes part, who is waited for, who dropped out and why; asked every second.
import { api, count, go, h, head, icon, notice, refresh, say, state, where } from "./studio.js";

const EVERY = 1500; // ms

export async function show(main, [name], signal) {
  await refresh();
  if (!name && state.federations.length === 1) name = state.federations[0];
  if (!name) { main.replaceChildren(choosing()); return; }
  where(name);
  let newest = "";
  for (let last = ""; !signal.aborted; await new Promise((done) => setTimeout(done, EVERY))) {
    try {
      const found = await api.get("federation", { name }, signal), now = JSON.stringify(found);
      if (now === last) continue;
      last = now;
      const open = [...main.querySelectorAll("details[open] summary")].map((each) => each.textContent);
      main.replaceChildren(page(found));
      for (const each of main.querySelectorAll("details")) each.open = open.includes(each.querySelector("summary").textContent);
      if (newest && found.events.length && found.events.at(-1).words !== newest) say(found.events.at(-1).words);
      newest = found.events.at(-1)?.words || "";
    } catch (error) {
      if (signal.aborted) return;
      if (last === "") { main.replaceChildren(head(`Federation ${name}`, ""), notice("warn", error.message)); last = " "; }
    }
  }
}

function choosing() {
  return h("div", {}, head("Federations", "Tables that stay with several owners, released together."), state.federations.length
    ? h("section", { class: "card" }, h("h2", {}, "Servers in this folder"), h("ul", { class: "log" }, state.federations.map((name) => h("li", {}, h("a", { href: `#federation/${encodeURIComponent(name)}` }, name)))))
    : notice("info", "No server of a federation keeps its journal in this folder.", "Start the studio in the folder that holds the folder of the server."));
}

const clock = (at) => at.slice(11, 19);

function page(found) {
  const rounds = found.owners.length ? found.owners[0].rounds.map((round) => [round.round, round.words]) : [];
  const many = rounds.length > 4 ? rounds.filter(([name]) => found.closed.includes(name) || name === found.round || name === "join") : rounds;
  const out = found.owners.flatMap((owner) => owner.rounds.filter((round) => round.left_out).map((round) => [owner, round]));
  return h("div", {},
    head(`Federation ${found.federation}`, `${count(found.owners.length, "owner")} · tables stay with their owners · started ${found.begun.slice(0, 16).replace("T", " ")}`, h("p", { class: "badge idle" }, icon("wait"), found.state === "released" ? "released" : `live, last event ${clock(found.newest)}`)),
    h("div", { class: "stack" },
      h("section", { class: "card" }, h("ol", { class: "rounds" }, many.map(([name, words], i) => {
        const closed = found.closed.includes(name), now = name === found.round && !closed;
        const answered = found.owners.filter((owner) => { const round = owner.rounds.find((each) => each.round === name); return round.at && !round.left_out; }).length;
        return h("li", { class: closed ? "done" : now ? "now" : null, "aria-current": now ? "step" : null }, h("b", {}, `${i + 1} ${name}`), closed ? `${answered} answered, closed` : now ? `${answered} answered, open` : words);
      }), h("li", { class: found.fingerprint ? "done" : null }, h("b", {}, "Release"), found.fingerprint ? "made" : "when the last round closes"))),
      found.waiting.length ? notice("info", `Waiting for ${found.waiting.join(", ")}.`, found.asks ? `Asked ${found.asks}. At least ${found.quorum} owners are needed.` : "") : null,
      h("section", { class: "card" }, h("h2", {}, "Owners"), h("p", { class: "small soft" }, "Each pays from its own ledger."),
        h("table", { class: "data cards" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "owner"), many.map(([name]) => h("th", { scope: "col" }, name)))),
          h("tbody", {}, found.owners.map((owner) => h("tr", {}, h("th", { scope: "row", class: "full" }, owner.name, owner.beyond ? h("span", { class: "small soft" }, " claims more records than agreed") : null), many.map(([name]) => h("td", { "data-l": name }, cell(owner, owner.rounds.find((each) => each.round === name), found)))))))),
      h("div", { class: "cols half" },
        h("section", { class: "card stack" }, h("h2", {}, "Who dropped out, and why"), out.length || found.strangers.length ? [out.map(([owner, round]) => notice("warn", `${owner.name}, in round ${round.round}: ${round.left_out}.`, `Code ${round.code}.`)), found.strangers.map((one) => notice("warn", `${one.name} is no owner and was sent away:`, `${one.why}.`))] : h("p", { class: "soft" }, "Nobody.")),
        h("section", { class: "card" }, h("h2", {}, "Events"), h("ol", { class: "log" }, [...found.events].reverse().map((event) => h("li", {}, h("time", {}, event.at.slice(0, 19).replace("T", " ")), event.words))))),
      found.fingerprint ? h("section", { class: "card" }, h("h2", {}, "Fingerprint of the release"), h("p", { class: "print" }, found.fingerprint)) : null));
}

function cell(owner, round, found) {
  if (round.left_out) return h("span", { class: "cell out" }, icon("out"), `dropped out: ${round.code}`);
  if (round.at) return h("span", { class: "cell" }, icon("good"), round.round === "join" ? "joined" : "answered");
  if (owner.waiting && round.round === found.round) return h("span", { class: "cell wait" }, icon("wait"), "waiting");
  return "–";
}
