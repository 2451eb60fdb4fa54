import assert from "node:assert/strict";
import { test } from "node:test";

import { fold } from "../src/fold.js";
import { encode, identity, parse } from "../src/json.js";
import { comparison } from "../src/order.js";
import { outline, shapeOf } from "../src/query.js";

test("whole answers are replaced, without what was before", () => {
  assert.deepEqual(fold({ value: 3 }, { value: 4, previous: 3 }), { value: 4 });
  assert.deepEqual(fold({ value: 3, row: { k: 1 } }, { value: null, row: null }), { value: null, row: null });
  assert.throws(() => fold({ value: 3 }, { add: [] }), { code: "out-of-step" });
});

test("rows are told apart by their key, and keep their place", () => {
  const before = {
    rows: [
      { k: 1, v: 7 },
      { k: 2, v: 5 },
      { k: 3, v: 1 },
    ],
  };
  const change = { add: [{ k: 9, v: 0 }], remove: [{ k: 1 }], update: [{ k: 2, v: 6 }] };
  assert.deepEqual(fold(before, change, { key: ["k"] }), {
    rows: [
      { k: 2, v: 6 },
      { k: 3, v: 1 },
      { k: 9, v: 0 },
    ],
  });
  assert.equal(before.rows.length, 3, "the result before is not touched");
  for (const wrong of [{ remove: [{ k: 4 }] }, { add: [{ k: 1 }] }, { update: [{ k: 4 }] }, { remove: [{ v: 7 }] }]) {
    assert.throws(() => fold(before, wrong, { key: ["k"] }), { code: "out-of-step" });
  }
});

test("groups are told apart by their key, and several aggregates as a whole", () => {
  const before = { groups: [{ g: null, n: 1 }, { g: "a", n: 2 }] };
  const change = { add: [{ g: "b", n: 1 }], update: [{ g: "a", n: 3 }], remove: [{ g: null }] };
  assert.deepEqual(fold(before, change, { key: ["g"] }), { groups: [{ g: "a", n: 3 }, { g: "b", n: 1 }] });
  assert.deepEqual(fold({ columns: { n: 1 } }, { columns: { n: 2 } }), { columns: { n: 2 } });
  assert.throws(() => fold({ columns: { n: 1 } }, { value: 2 }), { code: "out-of-step" });
});

test("the scale of a decimal does not tell rows apart", () => {
  const shape = { key: ["g"], columns: [{ name: "g", type: "numeric" }, { name: "n", type: "bigint" }] };
  const before = { groups: ["1.0", "-0.50", null, "100"].map((g) => ({ g, n: 1 })) };
  const change = { remove: [{ g: "-0.5" }, { g: null }], update: [{ g: "1.00", n: 2 }], add: [{ g: "0.00", n: 1 }] };
  assert.deepEqual(fold(before, change, shape), {
    groups: [{ g: "1.00", n: 2 }, { g: "100", n: 1 }, { g: "0.00", n: 1 }],
  });
  assert.throws(() => fold(before, { add: [{ g: "100.0", n: 1 }] }, shape), { code: "out-of-step" });
  const text = { key: ["g"], columns: [{ name: "g", type: "text" }] };
  assert.throws(() => fold(before, change, text), { code: "out-of-step" });
});

test("rows of a top-k are sorted, ties by their key, NULLs where the order has them", () => {
  const rows = ["9.50", null, "10.00", "9.5"].map((y, k) => ({ k, y }));
  const sorted = (descending, nulls_first) => {
    const order = [
      { column: "y", descending, nulls_first, type: "numeric" },
      { column: "k", descending: false, nulls_first: false, type: "integer" },
    ];
    return fold({ rows }, { add: [{ k: 9, y: "1" }] }, { key: ["k"], order }).rows.map(({ k }) => k);
  };
  assert.deepEqual(sorted(false, false), [9, 0, 3, 2, 1]);
  assert.deepEqual(sorted(true, false), [2, 0, 3, 9, 1]);
  assert.deepEqual(sorted(false, true), [1, 9, 0, 3, 2]);
  assert.deepEqual(sorted(true, true), [1, 2, 0, 3, 9]);
});

test("joined rows are told apart as a whole, whatever the order of their members", () => {
  const row = (a, b) => ({ r: { a, b }, s: { b, c: 1 } });
  const change = { add: [row(5, 6)], remove: [{ s: { c: 1, b: 2 }, r: { b: 2, a: 1 } }] };
  assert.deepEqual(fold({ rows: [row(1, 2), row(3, 4)] }, change), { rows: [row(3, 4), row(5, 6)] });
});

test("items come and go by their key", () => {
  const before = {
    items: [
      { key: { k: 1 }, value: 2 },
      { key: { k: 2 }, value: 3 },
    ],
  };
  const change = {
    items: [
      { key: { k: 1 }, value: null, previous: 2 },
      { key: { k: 5 }, value: 1, previous: null },
    ],
  };
  assert.deepEqual(fold(before, change), {
    items: [
      { key: { k: 2 }, value: 3 },
      { key: { k: 5 }, value: 1 },
    ],
  });
  assert.deepEqual(fold(before, { key: { k: 2 }, value: 9 }).items[1], { key: { k: 2 }, value: 9 });
});

test("values are sorted as the database does", () => {
  const sorted = (type, ...values) => [...values].reverse().sort(comparison(type));
  const cases = [
    ["text", "Z", "a", "ab", "\uffee", "\u{1f600}", null],
    ["numeric(12,2)", "-10.50", "-9.00", "0.00", "9.50", "10.00", "100.00", null],
    ["bigint", -5n, 3, 9007199254740993n, 9007199254740995n],
    ["boolean", false, true, null],
    ["bytea", "AA==", "AAE=", "fw==", "gA=="],
    ["timestamptz", "2024-01-01T00:00:00.000001+00:00", "2024-01-01T00:00:00.5Z", "2024-01-01T02:00:00+01:00"],
  ];
  for (const [type, ...values] of cases) assert.deepEqual(sorted(type, ...values), values, type);
  const result = fold({ values: ["9.50", null] }, { add: ["10.00"], remove: [] }, { type: "numeric(6,2)" });
  assert.deepEqual(result, { values: ["9.50", "10.00", null] });
  assert.throws(() => fold({ values: [1] }, { add: [1] }), { code: "out-of-step" });
  assert.throws(() => fold({ values: [1] }, { remove: [2] }), { code: "out-of-step" });
});

test("a fold of random changes is the set that was meant", () => {
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  let result = { values: [] };
  const held = new Set();
  for (let step = 0; step < 500; step += 1) {
    const change = { add: [], remove: [] };
    for (const value of new Set([random(40), random(40)])) {
      (held.has(value) ? change.remove : change.add).push(value);
      held.has(value) ? held.delete(value) : held.add(value);
    }
    result = fold(result, change, { type: "integer" });
    assert.deepEqual(
      result.values,
      [...held].sort((a, b) => a - b),
    );
  }
});

test("numbers are exact both ways", () => {
  const text =
    '{"a":9007199254740993,"b":-9223372036854775808,"c":5,"d":"9007199254740993","e":0.30000000000000004,"f":1e300}';
  const value = parse(text);
  assert.deepEqual(value, {
    a: 9007199254740993n,
    b: -9223372036854775808n,
    c: 5,
    d: "9007199254740993",
    e: 0.1 + 0.2,
    f: 1e300,
  });
  assert.equal(encode(value), text.replace("1e300", "1e+300"));
  assert.deepEqual(parse('["12\\"9007199254740993", 9007199254740993]'), ['12"9007199254740993', 9007199254740993n]);
  assert.equal(
    encode({ raw: new Uint8Array([104, 105]), at: new Date(0) }),
    '{"raw":"aGk=","at":"1970-01-01T00:00:00.000Z"}',
  );
  assert.throws(() => encode({ x: NaN }), TypeError);
  assert.equal(identity({ b: [1n, null], a: "x" }), identity({ a: "x", b: [1, null] }));
});

test("the outline of a query", () => {
  assert.deepEqual(outline("SELECT DISTINCT t.sector FROM Stocks t WHERE note = 'from a join'"), {
    table: "stocks",
    distinct: "sector",
  });
  assert.deepEqual(outline('SELECT * FROM "My ""T" -- join'), { table: 'My "T', distinct: null });
  assert.equal(outline("SELECT * FROM r JOIN s USING (b)").table, null);
  const definition = { columns: [{ name: "k", type: "integer" }], primary_key: ["k"] };
  assert.deepEqual(shapeOf({ distinct: "k" }, definition), { key: ["k"], type: "integer" });
});
