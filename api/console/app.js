/** The console's frame: which part is shown, the strip at the top, light and dark, keys. */

import { announce, bytes, count, field, fill, h, rough } from "./dom.js";
import { apiKey, on, useKey } from "./session.js";
import { run } from "./sampler.js";
import * as accessKeys from "./keys.js";
import * as geometry from "./geometry.js";
import * as live from "./live.js";
import * as market from "./market.js";
import * as network from "./network.js";
import * as optimizer from "./optimizer.js";
import * as start from "./start.js";
import * as statistics from "./statistics.js";
import * as tables from "./tables.js";
import * as views from "./views.js";
import * as webhooks from "./webhooks.js";
import { toggleTheme } from "./theme.js";

const PARTS = [
  ["start", "Start", start],
  ["live", "Live", live],
  ["tables", "Tables", tables],
  ["views", "Views", views],
  ["geometry", "Geometry", geometry],
  ["network", "Network", network],
  ["optimizer", "Optimizer", optimizer],
  ["statistics", "Statistics", statistics],
  ["webhooks", "Webhooks", webhooks],
  ["keys", "Keys", accessKeys],
];
const KEYS = [
  ["1 … 9, 0", "go to a part"],
  ["n", "write a subscription"],
  ["Ctrl Enter", "start it"],
  ["m", "let the demo market move, or stop it"],
  ["t", "light or dark"],
  ["?", "this list"],
  ["Esc", "close it"],
];

const main = document.getElementById("main");
let leave = null;

function show() {
  const name = location.hash.slice(1) || "start";
  const found = PARTS.find(([known]) => known === name);
  if (!found) return; // a link within the page
  leave?.();
  fill(main);
  document.title = `${found[1]} · ProSem`;
  leave = found[2].show(main) ?? null;
  for (const link of document.querySelectorAll("#parts a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

fill(
  document.getElementById("parts"),
  PARTS.map(([name, title], at) => h("a", { href: `#${name}`, title: `${title} (${(at + 1) % 10})` }, title)),
);
addEventListener("hashchange", () => {
  show();
  scrollTo(0, 0);
});

// -- the strip ---------------------------------------------------------------------------------------------------
const strip = document.getElementById("strip");
const figure = (name, value) => h("div", null, h("dt", null, name), h("dd", null, value));

on("sample", ({ metrics, gained }) => {
  fill(
    strip,
    figure("seq", count(metrics.get("prosem_seq"))),
    figure("rows", count(metrics.get("prosem_rows"))),
    figure("subscriptions", count(metrics.get("prosem_subscriptions"))),
    figure("attached", count(metrics.get("prosem_attached"))),
    figure("events / s", rough(gained?.events ?? 0)),
    figure("changes / s", rough(gained ? gained.changes : 0)),
    figure("backlog", count(metrics.get("prosem_backlog"))),
    metrics.has("prosem_process_peak_memory_bytes")
      ? figure("memory", bytes(metrics.get("prosem_process_peak_memory_bytes")))
      : null,
  );
});

const connection = document.getElementById("connection");
const say = (state) => {
  if (connection.dataset.state === state) return;
  connection.textContent = connection.dataset.state = state;
};
let stream = null; // its state; it is opened by the first subscription
on("state", (state) => say((stream = state)));
on("reachable", (isReachable) => {
  if (connection.dataset.state === "no key") return;
  if (stream !== "connecting" && stream !== "disconnected") say(isReachable ? "connected" : "disconnected");
});

// -- the key of the server -----------------------------------------------------------------------------------------
const entry = document.getElementById("entry");
const typed = h("input", { id: "api-key", type: "password", autocomplete: "off", spellcheck: "false", value: apiKey });
const refusal = h("p", { class: "faint" });
fill(
  entry,
  h("h2", { id: "entry-title" }, "Key"),
  refusal,
  h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        useKey(typed.value.trim());
      },
    },
    field("API key", typed, "kept until this tab is closed; empty: none"),
    h("button", { class: "primary" }, "Use it"),
    " ",
    h("button", { type: "button", class: "quiet", onclick: () => entry.close() }, "Close"),
  ),
);
document.getElementById("access").addEventListener("click", () => entry.showModal());
let hasAsked = false;
on("refused", () => {
  say("no key");
  if (hasAsked || document.getElementById("new-key")) return; // what is shown once is not covered
  hasAsked = true;
  fill(refusal, apiKey ? "The server does not know this key, or it was revoked." : "This server needs a key.");
  entry.showModal();
});

// -- keys --------------------------------------------------------------------------------------------------------
const keys = document.getElementById("keys");
fill(
  keys,
  h("h2", { id: "keys-title" }, "Keys"),
  h(
    "dl",
    { class: "keys" },
    KEYS.map(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)]),
  ),
  h("form", { method: "dialog" }, h("button", null, "Close")),
);
document.getElementById("help").addEventListener("click", () => keys.showModal());

addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select, dialog[open]");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = event.key === "0" ? 9 : Number(event.key) - 1;
  if (PARTS[at]) location.hash = PARTS[at][0];
  else if (event.key === "t") toggleTheme();
  else if (event.key === "?") keys.showModal();
  else if (event.key === "m") market.toggle().catch((error) => announce(error.message));
  else if (event.key === "n") {
    location.hash = "live";
    setTimeout(() => document.getElementById("sql")?.focus());
  } else return;
  event.preventDefault();
});

show();
run();
