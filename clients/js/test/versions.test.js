import assert from "node:assert/strict";
import { test } from "node:test";

import { fold } from "../src/fold.js";
import { resolved, Versions } from "../src/versions.js";

const KEY = { key: ["k"] };

function walked(count) {
  let result = { rows: [{ k: 0, v: 0 }] };
  const versions = new Versions(result, KEY);
  const [expected, given] = [[], []];
  for (let number = 1; number <= count; number += 1) {
    const change = { add: [{ k: number, v: 0 }] };
    if (number % 3 === 0) change.remove = [{ k: number - 3 }];
    if (number % 5 === 0) change.update = [{ k: number - 1, v: number }];
    result = fold(result, change, KEY);
    expected.push(result);
    given.push(versions.fold(change));
  }
  return { expected, given };
}

test("every version has the answer of its moment, in whatever order they are asked", () => {
  const forwards = walked(320);
  assert.deepEqual(forwards.given.map(resolved), forwards.expected);
  const backwards = walked(320);
  assert.deepEqual(backwards.given.reverse().map(resolved), backwards.expected.reverse());
});

test("a version gives the same answer each time", () => {
  const { given } = walked(3);
  assert.equal(resolved(given[1]), resolved(given[1]));
});

test("whole answers have versions too, and an answer is itself", () => {
  const versions = new Versions({ value: 1 }, {});
  const first = versions.fold({ value: 2, previous: 1 });
  versions.fold({ value: 3, previous: 2 });
  assert.deepEqual(resolved(first), { value: 2 });
  assert.equal(resolved(null), null);
});
