#!/usr/bin/env node
/** `npx prosem-types http://127.0.0.1:8080 > prosem.d.ts`: the rows of a server's tables, views and queries as types. */

import { readFile } from "node:fs/promises";
import { Client, ProsemError } from "../src/index.js";
import { declarations } from "../src/declarations.js";

const USAGE = `usage: prosem-types URL [--api-key KEY] [--queries FILE] > prosem.d.ts

FILE is JSON with a name for each query: {"Cheapest": "SELECT symbol, per FROM stocks ORDER BY per LIMIT 5"}.
The key may also be given as the variable PROSEM_API_KEY.`;

function options(words) {
  const found = { url: "", apiKey: process.env.PROSEM_API_KEY ?? "", queries: "" };
  const names = { "--api-key": "apiKey", "--queries": "queries" };
  for (let at = 0; at < words.length; at += 1) {
    if (names[words[at]] && at + 1 < words.length) found[names[words[at]]] = words[(at += 1)];
    else if (found.url || words[at].startsWith("-")) return null;
    else found.url = words[at];
  }
  return found.url ? found : null;
}

async function main() {
  const given = options(process.argv.slice(2));
  if (given === null) {
    console.error(USAGE);
    return 2;
  }
  const client = new Client(given.url, { apiKey: given.apiKey });
  try {
    const queries = given.queries ? JSON.parse(await readFile(given.queries, "utf-8")) : {};
    const described = {};
    for (const [name, sql] of Object.entries(queries)) {
      described[name] = await client.request("POST", "/v1/describe", { sql });
    }
    process.stdout.write(declarations(await client.tables(), await client.views(), described));
    return 0;
  } catch (error) {
    console.error(`prosem-types: ${error instanceof ProsemError ? error.detail : error.message}`);
    return 1;
  } finally {
    client.close();
  }
}

process.exitCode = await main();
