/** The types that prosem-types writes; that a compiler takes them is checked by tests/clients/test_client_types.py. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { declarations, typeOf } from "../src/declarations.js";

test("columns have the types that JSON carries", () => {
  assert.equal(typeOf("numeric(12,2)", false), "string");
  assert.equal(typeOf("bigint"), "number | bigint | null");
  assert.equal(typeOf("jsonb"), "Value");
  assert.equal(typeOf("something new"), "Value");
});

test("names are made identifiers, and none is used twice", () => {
  const column = { name: "a b", type: "text" };
  const table = (name) => ({ name, columns: [column, { name: "k", type: "integer" }], primary_key: ["k"] });
  const text = declarations([table("order_lines"), table("order lines"), table("2nd"), table("tables")], [], {
    tables: { fold: { columns: [{ name: "n", type: "bigint" }], key: ["n"] } },
    one: { fold: { type: "integer" } },
  });
  for (const name of ["OrderLines", "OrderLines2", "Row2nd", "TablesRow", "Tables2", "One"]) {
    assert.match(text, new RegExp(`export type ${name} =`), text);
  }
  assert.match(text, /"a b": string \| null;\n {2}k: number;/);
  assert.match(text, /"order lines": OrderLines;/);
});
