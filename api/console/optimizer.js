/** The optimizer: its weights as sliders, what they do to the server, and the plans of an event. */

import { announce, bytes, count, fill, h, later, problem, rough, tableOf } from "./dom.js";
import { client, maybe, on } from "./session.js";
import { samples } from "./sampler.js";
import { chart } from "./chart.js";
import { explainer } from "./explain.js";

const WEIGHTS = [
  ["server_time", "Server time", "work of the server for an event"],
  ["response_time", "Response time", "from the event until its subscribers are notified"],
  ["server_stress", "Server stress", "what leaves the server"],
  ["bandwidth", "Bandwidth", "what the links of the network carry"],
];

let settings = []; // places in `samples` where a weight was set

export function show(main) {
  const knobs = h("div", { class: "knobs" });
  const charts = h("div", { class: "charts" });
  const explain = explainer();
  const decisions = h("section");
  fill(
    main,
    h("h2", null, "Optimizer"),
    h(
      "p",
      { class: "lead" },
      "There are several ways to notify the subscribers of an event. The optimizer estimates what each would cost, weighs the four costs as you say here, and takes the cheapest. A change is in force at once.",
    ),
    knobs,
    charts,
    h("h2", null, "Explain an event"),
    explain.element,
    decisions,
  );
  load(knobs);
  listDecisions(decisions);

  function draw() {
    const series = (name) => samples.map((sample) => sample[name] ?? null);
    const marks = settings.map((mark) => samples.indexOf(mark));
    fill(
      charts,
      chart(
        "Throughput",
        "/ s",
        rough,
        [
          ["events", series("events")],
          ["changes", series("changes")],
        ],
        marks,
      ),
      chart(
        "Latency",
        "ms",
        rough,
        [
          ["seen here", series("latency")],
          ["commit", series("commit")],
        ],
        marks,
      ),
      chart("Server stress", "/ event", bytes, [["", series("stressBytes")]], marks, messages(series("stress"))),
      chart("Bandwidth", "/ s", bytes, [["", series("bandwidth")]], marks),
    );
  }

  draw();
  let samplings = 0;
  return on("sample", () => {
    draw();
    samplings += 1;
    if (samplings % 3 === 0) listDecisions(decisions);
  });
}

/** How many messages an event is, last. */
function messages(stress) {
  const last = stress.findLast((value) => value !== null);
  return last === undefined ? "" : `${rough(last)} messages / event`;
}

/** The last decisions: what was expected of the plan, and what it took. */
async function listDecisions(section) {
  const answer = await maybe(client.request("GET", "/v1/optimizer/decisions?limit=12")).catch(() => null);
  if (!answer?.decisions?.length) return;
  const cost = ({ estimates, plan }) => estimates?.[plan]?.cost;
  const line = (decision) =>
    h(
      "tr",
      null,
      h("td", { class: "number" }, count(decision.seq)),
      h("td", null, h("code", null, decision.group ?? "")),
      h("td", null, decision.plan),
      h("td", { class: "number" }, cost(decision) === undefined ? "–" : rough(cost(decision))),
      h(
        "td",
        { class: "number" },
        decision.actual?.server_time === undefined ? "–" : rough(decision.actual.server_time),
      ),
      h("td", { class: "number" }, decision.actual?.messages === undefined ? "–" : count(decision.actual.messages)),
    );
  const titles = [
    ["seq", "number"],
    ["group"],
    ["plan"],
    ["expected cost", "number"],
    ["server time, µs", "number"],
    ["messages", "number"],
  ];
  fill(
    section,
    h("h2", null, "Last decisions"),
    h(
      "div",
      { class: "scroll" },
      tableOf(
        titles.map(([title, kind]) => h("th", { class: kind, scope: "col" }, title)),
        answer.decisions.map(line),
        { class: "decisions" },
      ),
    ),
  );
}

async function load(knobs) {
  try {
    const weights = await maybe(client.request("GET", "/v1/optimizer/weights"));
    if (weights === null) {
      fill(
        knobs,
        h(
          "p",
          { class: "notice" },
          "This server has no weights to set (GET /v1/optimizer/weights): it takes the first plan of each type, or the one named by --plan.",
        ),
      );
      return;
    }
    fill(knobs, sliders(weights));
  } catch (error) {
    fill(knobs, problem(error));
  }
}

function sliders(weights) {
  const outcome = h("div");
  const inputs = new Map();
  const most = 2 * Math.max(1, ...Object.values(weights).map(Number).filter(Number.isFinite)); // only ratios matter
  const put = later(150, async () => {
    try {
      const wanted = Object.fromEntries([...inputs].map(([name, input]) => [name, Number(input.value)]));
      await client.request("PUT", "/v1/optimizer/weights", wanted);
      if (samples.length) settings = [...settings, samples.at(-1)].slice(-20);
      fill(outcome);
      announce("The weights are in force");
    } catch (error) {
      fill(outcome, problem(error));
    }
  });
  const knob = ([name, title, what]) => {
    const shown = h("output", null, rough(Number(weights[name] ?? 0)));
    const input = h("input", {
      type: "range",
      id: `weight-${name}`,
      "aria-describedby": `what-${name}`,
      min: 0,
      max: most,
      step: most / 100,
      name,
      value: Number(weights[name] ?? 0),
      oninput: () => ((shown.textContent = rough(Number(input.value))), put()),
    });
    inputs.set(name, input);
    return h(
      "div",
      { class: "knob" },
      h("span", null, h("label", { for: input.id }, h("b", null, title)), shown),
      input,
      h("small", { id: `what-${name}` }, what),
    );
  };
  return [WEIGHTS.map(knob), outcome];
}
