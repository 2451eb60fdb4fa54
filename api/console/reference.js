/** The routes of /openapi.json: what each takes, and a form to try it. Nothing comes from another host. */

import { field, fill, h, problem } from "./dom.js";
import { client } from "./session.js";
import { encode } from "./client/index.js";
import "./theme.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const STREAMED = /\/stream$/; // an answer without an end has no place in a form

let components = {};

/** A schema without its reference, and the first of alternatives. */
function resolved(schema = {}) {
  if (schema.anyOf) return { ...schema, ...resolved(schema.anyOf[0]) };
  const name = schema.$ref?.split("/").pop();
  return name ? { ...resolved(components[name]), ...schema } : schema;
}

/** An example of a body: the given one, or what its schema requires. */
function exampleOf(given) {
  const schema = resolved(given);
  if (schema.example !== undefined) return schema.example;
  if (schema.enum) return schema.enum[0];
  if (schema.type === "array") return [exampleOf(schema.items ?? {})];
  if (schema.type !== "object") return { integer: 0, number: 0, boolean: true }[schema.type] ?? "";
  const wanted = schema.required ?? [];
  return Object.fromEntries(wanted.map((name) => [name, exampleOf(schema.properties?.[name] ?? {})]));
}

/** What a body may hold, in a line each. */
function properties(schema) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, member]) => {
    const about = resolved(member);
    return [
      h("dt", null, h("code", null, required.has(name) ? name : `${name}?`)),
      h("dd", null, about.description ?? about.enum?.join(" | ") ?? about.type ?? "any"),
    ];
  });
}

/** The path with the values of its parameters, and the query of those given. */
function address(path, inputs) {
  const query = new URLSearchParams();
  let where = path;
  for (const [parameter, input] of inputs) {
    if (parameter.in === "path") where = where.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    else if (input.value) query.set(parameter.name, input.value);
  }
  return query.size ? `${where}?${query}` : where;
}

function shown(answer) {
  return typeof answer === "string" ? answer : JSON.stringify(JSON.parse(encode(answer)), null, 2);
}

function attempt(path, method, about) {
  const schema = about.requestBody?.content?.["application/json"]?.schema;
  const inputs = (about.parameters ?? [])
    .filter((parameter) => parameter.in !== "header")
    .map((parameter) => [parameter, h("input", { required: parameter.in === "path", spellcheck: "false" })]);
  const example = schema ? shown(exampleOf(schema)) : "";
  const body = schema && h("textarea", { rows: example.split("\n").length, spellcheck: "false", value: example });
  const answer = h("div", { role: "status" });
  const send = async (event) => {
    event.preventDefault();
    fill(answer, h("p", { class: "faint" }, "asking …"));
    try {
      const given = body ? JSON.parse(body.value) : undefined;
      const response = await client.request(method.toUpperCase(), address(path, inputs), given);
      fill(answer, h("pre", { tabindex: "0" }, shown(response ?? "")));
    } catch (error) {
      fill(answer, problem(error));
    }
  };
  return h(
    "form",
    { onsubmit: send },
    about.description ? h("p", null, about.description) : null,
    inputs.length
      ? h(
          "div",
          { class: "fields" },
          inputs.map(([parameter, input]) => field(parameter.name, input)),
        )
      : null,
    schema?.properties ? h("dl", { class: "keys" }, properties(schema)) : null,
    body ? field("body", body) : null,
    STREAMED.test(path) ? null : h("button", { class: "primary" }, "Send"),
    answer,
  );
}

function route(path, method, about) {
  const made = h(
    "details",
    { class: "route", "data-method": method, id: `${method} ${path}` },
    h(
      "summary",
      null,
      h("span", { class: "method" }, method.toUpperCase()),
      h("code", null, path),
      h("span", { class: "faint" }, about.summary),
    ),
  );
  made.addEventListener("toggle", () => made.append(attempt(path, method, about)), { once: true });
  return made;
}

async function show() {
  const { paths, components: described } = await client.request("GET", "/openapi.json");
  components = described.schemas;
  const parts = new Map();
  for (const [path, methods] of Object.entries(paths)) {
    for (const method of METHODS.filter((name) => name in methods)) {
      const part = methods[method].tags?.[0] ?? "other";
      if (!parts.has(part)) parts.set(part, []);
      parts.get(part).push(route(path, method, methods[method]));
    }
  }
  const names = [...parts.keys()].sort();
  fill(
    document.getElementById("routes"),
    names.map((name) => h("section", null, h("h2", { id: name }, name), parts.get(name))),
  );
  fill(
    document.getElementById("parts"),
    [...names, "sockets"].map((name) => h("a", { href: `#${name}` }, name)),
  );
}

show().catch((error) => fill(document.getElementById("routes"), problem(error)));
