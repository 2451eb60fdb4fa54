/** Webhooks: where changes are posted to, how far each receiver has come, and what could not be delivered. */

import { announce, count, field, fill, h, problem, tableOf } from "./dom.js";
import { client, on } from "./session.js";
import { encode } from "./client/index.js";

let chosen = null; // an id

const at = (...parts) => `/v1/webhooks/${parts.map(encodeURIComponent).join("/")}`;
const when = (text) => new Date(text).toLocaleString();

export function show(main) {
  const list = h("div");
  const detail = h("section", { class: "relation-detail" });
  const fault = h("div");
  let drawn = "";

  async function refresh() {
    try {
      const { webhooks } = await client.request("GET", "/v1/webhooks?limit=1000");
      const known = webhooks.find(({ id }) => id === chosen) ?? webhooks[0];
      chosen = known?.id ?? null;
      fill(fault);
      fill(list, webhooks.length ? table(webhooks) : h("p", { class: "faint" }, "There are none."));
      await describe();
    } catch (error) {
      if (error.status === 403)
        fill(fault, h("p", { class: "notice" }, "Webhooks need a key with the role subscriber."));
      else fill(fault, problem(error));
    }
  }

  /** What is being read or focused stays as it is until it changes. */
  async function describe() {
    if (chosen === null) return void fill(detail);
    const about = await client.request("GET", at(chosen));
    const letters = about.dead_letters ? (await client.request("GET", at(chosen, "dead-letters"))).dead_letters : [];
    const state = encode([about, letters]);
    if (state === drawn) return;
    drawn = state;
    fill(detail, details(about, letters, act));
  }

  async function act(action, said) {
    try {
      await action();
      announce(said);
    } catch (error) {
      fill(fault, problem(error));
    }
    drawn = "";
    await refresh();
  }

  function table(webhooks) {
    const choose = (id) => {
      chosen = id;
      drawn = "";
      refresh();
    };
    return h(
      "div",
      { class: "scroll" },
      tableOf(
        ["address", "state"].map((name) => h("th", null, name)),
        webhooks.map(({ id, url, active, problem: last }) =>
          h(
            "tr",
            { class: id === chosen ? "chosen" : "", "data-webhook": id },
            h("td", null, h("button", { type: "button", class: "link", onclick: () => choose(id) }, url)),
            h("td", null, active ? (last ? "retrying" : "active") : "paused"),
          ),
        ),
      ),
    );
  }

  fill(
    main,
    h("h1", { class: "unseen" }, "Webhooks"),
    h(
      "div",
      { class: "columns" },
      h("section", null, h("h2", null, "Webhooks"), fault, list, creation(refresh)),
      detail,
    ),
  );
  refresh();
  return on("sample", refresh);
}

function details(about, letters, act) {
  const term = (name, ...value) => [h("dt", null, name), h("dd", null, ...value)];
  const button = (label, action, said) =>
    h("button", { type: "button", class: "quiet", onclick: () => act(action, said) }, label);
  return [
    h("h2", null, about.url),
    h(
      "dl",
      { class: "terms" },
      term("Id", h("code", null, about.id)),
      term("Created", when(about.created)),
      term("State", about.active ? "active" : "paused"),
      about.problem ? term("Last error", h("span", { class: "fell" }, about.problem)) : null,
      term(
        "Subscriptions",
        about.subscriptions.map(({ id, seq }) =>
          h(
            "p",
            null,
            h("code", null, id),
            h("span", { class: "faint" }, seq === null ? " nothing accepted yet" : ` up to seq ${count(seq)}`),
          ),
        ),
      ),
      term(
        "Pending",
        about.pending.length
          ? about.pending.map(({ delivery, frames, attempts }) =>
              h(
                "p",
                null,
                `${count(frames)} frames, attempt ${attempts + 1} `,
                h("code", { class: "faint" }, delivery),
              ),
            )
          : "nothing",
      ),
    ),
    h("h3", null, `Dead letters (${count(about.dead_letters)})`),
    letters.length
      ? [
          h(
            "ul",
            { class: "users" },
            letters.map(({ delivery, frames, first_seq: first, last_seq: last, error }) =>
              h(
                "li",
                null,
                h(
                  "details",
                  null,
                  h(
                    "summary",
                    null,
                    `${count(frames)} frames, seq ${count(first ?? 0)} to ${count(last ?? 0)}: ${error ?? ""}`,
                  ),
                  letterBody(about.id, delivery),
                ),
                button(
                  "Deliver again",
                  () => client.request("POST", `${at(about.id)}/dead-letters/redeliver`, { deliveries: [delivery] }),
                  "The delivery is sent again",
                ),
                " ",
                button(
                  "Discard",
                  () => client.request("DELETE", at(about.id, "dead-letters", delivery)),
                  "The delivery was discarded",
                ),
              ),
            ),
          ),
          button(
            "Deliver all again",
            () => client.request("POST", `${at(about.id)}/dead-letters/redeliver`, {}),
            "All dead letters are sent again",
          ),
        ]
      : h("p", { class: "faint" }, "Every delivery was accepted, or is still tried."),
    h(
      "p",
      { class: "line" },
      button("Delete this webhook", () => client.request("DELETE", at(about.id)), "The webhook was deleted"),
    ),
  ];
}

/** The body of a dead letter, read when it is opened. */
function letterBody(id, delivery) {
  const body = h("pre", null);
  const read = async (event) => {
    if (event.target.open && !body.textContent)
      fill(body, encode((await client.request("GET", at(id, "dead-letters", delivery))).body));
  };
  queueMicrotask(() => body.parentElement?.addEventListener("toggle", read));
  return body;
}

function creation(refresh) {
  const url = h("input", { placeholder: "https://example.org/hook" });
  const subscriptions = h("input", { placeholder: "mine, owner-7" });
  const secret = h("input", { autocomplete: "off" });
  const outcome = h("div");
  async function submit(event) {
    event.preventDefault();
    const ids = subscriptions.value
      .split(",")
      .map((id) => id.trim())
      .filter(Boolean);
    const asked = { url: url.value.trim(), subscriptions: ids, ...(secret.value ? { secret: secret.value } : {}) };
    try {
      const made = await client.request("POST", "/v1/webhooks", asked);
      chosen = made.id;
      secret.value = "";
      fill(
        outcome,
        h(
          "p",
          { class: "done" },
          "Created.",
          made.secret ? [" Its secret, shown this once: ", h("code", { id: "webhook-secret" }, made.secret)] : "",
        ),
      );
      await refresh();
    } catch (error) {
      fill(outcome, problem(error));
    }
  }
  return h(
    "details",
    { class: "create" },
    h("summary", null, "Create a webhook"),
    h(
      "form",
      { onsubmit: submit },
      field("Address", url),
      field("Subscriptions, by id", subscriptions, "durable ones, separated by commas"),
      field("Secret", secret, "empty: the server makes one"),
      h("button", { class: "primary" }, "Create"),
      outcome,
    ),
  );
}
