/**
 * The update monitor: its parts by the cases of the Python client, and all of it against a simulated server whose answers
 * and frames overtake each other, or get lost. Every item is compared with the rows as of its seq.
 */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { Client, ConnectionLost, NotMonitorable, fold } from "../src/index.js";
import { condition } from "../src/conditions.js";
import { History } from "../src/forecast.js";
import { identityOf } from "../src/fold.js";
import { HeldRows, Limit, Limits } from "../src/held.js";
import { encode, identity, parse } from "../src/json.js";
import { MonitoredSubscription, settingsOf } from "../src/monitored.js";
import { registration } from "../src/registration.js";
import { scaleOf } from "../src/scales.js";
import { Spline } from "../src/spline.js";

const CASES = parse(await readFile(new URL("../../../tests/clients/monitor_cases.json", import.meta.url), "utf-8"));
const registered = (where, table = CASES.table) => registration(condition(`SELECT * FROM t WHERE ${where}`), table);
const same = (one, other, message) => assert.equal(identity(one), identity(other), message);

/** A generator of random numbers by its seed, so that a failure can be run again. */
function dice(seed) {
  let state = seed;
  const random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const integer = (least, most) => least + Math.floor(random() * (most - least + 1));
  return { random, integer, choice: (list) => list[integer(0, list.length - 1)] };
}

// -- the parts -----------------------------------------------------------------------------------------------
test("the ends of a range", () => {
  for (const { where, registered: text, ends } of CASES.registrations) {
    const made = registered(where);
    assert.equal(made.sql, `SELECT * FROM t WHERE ${text ?? where}`);
    const found = made.limits.all.map(({ end }) => [end.column, end.parameter, end.isLower, end.isOpen]);
    assert.deepEqual(found, ends, where);
  }
});

test("a query that cannot be checked is refused", async () => {
  const client = new Client("http://127.0.0.1:9");
  for (const [sql, word] of CASES.refused) {
    await assert.rejects(client.subscribe(sql, {}, { monitor: true }), (error) => {
      assert.ok(error instanceof NotMonitorable && error.detail.includes(word), `${sql}: ${error}`);
      return true;
    });
  }
  const rows = "SELECT * FROM t WHERE x > :x";
  await assert.rejects(client.subscribe(rows, {}, { monitor: true, notify: { change: 1 } }), /notification/);
  await assert.rejects(client.subscribe(rows, {}, { monitor: true, raw: true }), /raw/);
  for (const wrong of [{ frequencyHz: 0 }, { windowMs: -1 }, { margin: -0.1 }]) {
    await assert.rejects(client.subscribe(rows, {}, { monitor: wrong }), RangeError);
  }
  for (const [sql, word] of CASES.unforetellable) {
    assert.throws(() => registration(condition(sql), CASES.table), new RegExp(word), sql);
  }
  client.close();
});

test("the parameters that are registered", () => {
  for (const { where, params, registered: expected, at } of CASES.values) {
    const made = registered(where);
    if (at) {
      assert.throws(() => made.exact(params), (error) => error.status === 422 && error.errors[0].at === at, where);
    } else same(made.exact(params), expected, where);
  }
});

test("a comparison is the server's", () => {
  for (const [type, sign, value, param, admits] of CASES.comparisons) {
    const end = { column: "x", parameter: "p", isLower: sign[0] === ">", isOpen: sign.length === 1 };
    const limits = new Limits([new Limit(end, scaleOf(type))]);
    const shown = `${type}: ${encode(value)} ${sign} ${encode(param)}`;
    if (admits === null) assert.throws(() => limits.constants({ p: param }), RangeError, shown);
    else assert.equal(limits.admit(limits.places({ x: value }), limits.constants({ p: param })), admits, shown);
  }
  const moments = scaleOf("timestamptz");
  assert.equal(moments.constant(new Date(1)), 1000n);
});

test("a wider end lies beyond", () => {
  for (const [type, place, upward, value] of CASES.beyond) same(scaleOf(type).beyond(place, upward), value, type);
  const { random } = dice(3);
  for (const type of ["integer", "bigint", "double precision", "numeric(6,2)", "numeric(12,0)"]) {
    const scale = scaleOf(type);
    for (let n = 0; n < 200; n += 1) {
      const place = (random() - 0.5) * 10 ** (random() * 17);
      const [below, above] = [false, true].map((upward) => scale.float(scale.constant(scale.beyond(place, upward))));
      assert.ok(below <= place && place <= above && above - below <= 1 + Math.abs(place) * 1e-15, `${type} ${place}`);
    }
  }
});

test("a forecast is that of the other client", () => {
  for (const { name, rate_hz, values, frequency, span, band } of CASES.forecasts) {
    const history = new History(1);
    values.forEach((value, at) => history.record(at / rate_hz, value));
    assert.equal(history.frequency((values.length - 1) / rate_hz), frequency, name);
    assert.equal(history.span, span, name);
    const found = history.band();
    assert.equal(found === null, band === null, name);
    found?.forEach((end, at) => assert.ok(Math.abs(end - band[at]) < 1e-6, `${name}: ${found}, not ${band}`));
  }
  for (const bad of [[0], [0, 0]]) assert.throws(() => new Spline(bad, bad), RangeError);
});

// -- rows at hand --------------------------------------------------------------------------------------------
const TABLE = {
  columns: [
    { name: "k", type: "integer" },
    { name: "x", type: "integer" },
  ],
  primary_key: ["k"],
};
const byKey = ({ rows }) => new Map(rows.map((row) => [row.k, row]).sort(([a], [b]) => a - b));
const SIGNS = { true: { true: (a, b) => a > b, false: (a, b) => a >= b }, false: { true: (a, b) => a < b, false: (a, b) => a <= b } };

/** The answer, row by row, without any of the parts. */
function scan(rows, limits, params) {
  const admits = (row, { column, parameter, isLower, isOpen }) => {
    const [value, constant] = [row[column], params[parameter]];
    return value !== null && constant !== null && SIGNS[isLower][isOpen](value, constant);
  };
  return new Map([...rows].filter(([, row]) => limits.all.every(({ end }) => admits(row, end))).sort(([a], [b]) => a - b));
}

test("held rows are those of a scan", () => {
  for (let seed = 1; seed <= 150; seed += 1) {
    const { integer, choice, random } = dice(seed);
    const { limits } = registered("x > :lo AND x <= :hi AND k < :most", TABLE);
    const constant = () => choice([null, ...Array(12).keys()]);
    const rows = new Map(Array.from({ length: integer(0, 5) }, (_, k) => [k, { k, x: constant() }]));
    let params = { lo: constant(), hi: constant(), most: constant() };
    const held = new HeldRows(limits, {
      key: ["k"],
      identityOf: identityOf({ key: ["k"] }),
      rows: rows.values(),
      constants: limits.constants(params),
    });
    let told = held.result();
    for (let step = 0; step < 15; step += 1) {
      const [k, row] = [integer(0, 7), { x: constant() }];
      row.k = k;
      if (random() < 0.5) {
        params = { ...params, [choice(["lo", "hi", "most"])]: constant() };
        held.show(limits.constants(params));
      } else if (!rows.has(k)) {
        held.apply({ add: [row] });
        rows.set(k, row);
      } else if (random() < 0.5) {
        held.apply({ update: [row] });
        rows.set(k, row);
      } else {
        held.apply({ remove: [{ k }] });
        rows.delete(k);
      }
      const change = random() < 0.5 ? held.take() : null;
      if (change) {
        const after = fold(told, change, { key: ["k"] });
        assert.notDeepEqual(byKey(after), byKey(told), "a change that changes nothing");
        told = after;
        assert.deepEqual(byKey(told), byKey(held.result()), `seed ${seed}`);
      }
      assert.deepEqual(byKey(held.result()), scan(rows, limits, params), `seed ${seed}`);
    }
    assert.throws(() => held.apply({ remove: [{ k: 99 }] }), { code: "out-of-step" });
  }
});

// -- all of it -----------------------------------------------------------------------------------------------
/** One order of events and updates; answers and frames travel on their own. It is the calls and the stream at once. */
class Simulation {
  constructor(where, params, seed, { losses = 0, windowMs = 100 } = {}) {
    this.dice = dice(seed);
    this.losses = losses;
    this.rows = new Map();
    this.log = [this.rows]; // by seq
    this.isActive = true;
    this.sent = []; // frames and progress marks
    this.patches = 0;
    this.progress = -1;
    this.expected = null;
    this.registration = registered(where, TABLE);
    for (let k = 0; k < 20; k += 1) this.event(k, this.dice.integer(0, 60));
    this.params = this.registration.exact(params);
    this.told = this.answer(this.params);
    const began = { id: "a", seq: this.seq, result: { rows: [...this.told.values()] }, shape: { key: ["k"] } };
    this.subscription = new MonitoredSubscription(this, this, {
      began: { ...began, registered: this.params },
      params,
      limit: 10_000,
      monitor: settingsOf({ frequencyHz: 20, windowMs }),
      registration: this.registration,
    });
  }

  get seq() {
    return this.log.length - 1;
  }

  answer(params, seq = this.seq) {
    return scan(this.log[seq], this.registration.limits, params);
  }

  pause() {
    return new Promise((done) => setTimeout(done, this.dice.choice([0, 0, 1, 4])));
  }

  // the calls
  async patch(id, body) {
    this.patches += 1;
    await this.pause();
    if (this.dice.random() < this.losses) throw new ConnectionLost("on the way there");
    this.params = body.params ?? this.params;
    this.isActive = body.active ?? this.isActive;
    this.tell(true);
    const answer = { id, seq: this.seq };
    await this.pause();
    if (this.dice.random() < this.losses) throw new ConnectionLost("on the way back");
    return answer;
  }

  closed() {}

  // the stream
  listen(feed) {
    this.feed = feed;
    feed.isWanted = feed.isListening = true;
  }

  leave() {}

  expect(feed, seq) {
    this.expected = seq;
    this.mark(this.progress);
  }

  mark(seq) {
    this.progress = seq;
    if (this.expected === null || this.expected > seq) return;
    this.expected = null;
    this.feed.passBy(seq);
    this.feed.nudge();
  }

  deliver(count) {
    for (const item of this.sent.splice(0, count)) {
      if (typeof item === "number") this.mark(item);
      else this.feed.take(item);
    }
  }

  // the rows
  event(k, x, isDelete = false) {
    this.rows = new Map(this.rows).set(k, { k, x });
    if (isDelete) this.rows.delete(k);
    this.log.push(this.rows);
    if (this.subscription) this.tell(false);
  }

  tell(isUpdate) {
    const [before, after] = [this.told, this.answer(this.params)];
    if (this.isActive && identity([...before.values()]) !== identity([...after.values()])) {
      if (isUpdate) this.log.push(this.rows);
      const change = {
        add: [...after.values()].filter(({ k }) => !before.has(k)),
        remove: [...before.keys()].filter((k) => !after.has(k)).map((k) => ({ k })),
        update: [...after.values()].filter((row) => before.has(row.k) && before.get(row.k).x !== row.x),
      };
      this.told = after;
      const isSnapshot = !isUpdate && this.dice.random() < 0.02;
      const payload = isSnapshot ? { rows: [...after.values()] } : change;
      this.sent.push({ seq: this.seq, payload, isSnapshot, timeline: null });
    }
    if (isUpdate || this.dice.random() < 0.5) this.sent.push(this.seq);
  }
}

/** Random updates and events; every item must be the answer as of its seq, and lead from one result to the next. */
async function simulated(where, seed, { path, last, steps = 250, losses = 0, pauses = false }) {
  const simulation = new Simulation(where, path(0), seed, { losses });
  const { subscription, dice: own } = simulation;
  let [items, lost, result, failure] = [0, 0, subscription.result, null];
  let seq = subscription.seq;
  subscription.listen(
    (item) => {
      items += 1;
      const expected = simulation.answer(subscription._display.params, item.seq);
      assert.deepEqual(byKey(item.result), expected, `seed ${seed}, seq ${item.seq}`);
      assert.ok(item.seq >= seq);
      if (!item.snapshot) {
        assert.deepEqual(byKey(fold(result, item.change, { key: ["k"] })), byKey(item.result));
        assert.notDeepEqual(byKey(item.result), byKey(result), "a spurious change");
      }
      [result, seq] = [item.result, item.seq];
    },
    (error) => (failure = error),
  );
  const update = (params) => subscription.patch(params).catch((error) => (lost += error instanceof ConnectionLost));
  const go = async () => {
    await simulation.pause();
    simulation.deliver(own.integer(0, 3));
    if (failure) throw failure;
  };
  for (let step = 1; step <= steps || (losses && !lost); step += 1) {
    const action = own.random();
    if (action < 0.6) update(path(step));
    else if (action < 0.98 || !pauses) {
      simulation.event(own.integer(0, 25), own.choice([null, own.integer(0, 60)]), own.random() < 0.2);
    } else await (subscription._isActive ? subscription.suspend() : subscription.resume());
    if (own.random() < 0.8) await go();
  }
  simulation.losses = 0;
  if (!subscription._isActive) await subscription.resume();
  const final = simulation.registration.exact(last);
  const isAtRest = () => identity(simulation.params) === identity(final);
  const isExact = () => identity([...byKey(subscription.result).values()]) === identity([...simulation.answer(final).values()]);
  const until = Date.now() + 20_000;
  update(last);
  while (!isAtRest() || !isExact()) {
    assert.ok(Date.now() < until, `seed ${seed}: the last range does not come into force`);
    if (identity(subscription._desired.params) !== identity(final)) await update(last);
    await go();
  }
  subscription.close();
  return { simulation, subscription, items, lost };
}

function walker(seed, make) {
  const { choice, random } = dice(seed);
  let middle = 20;
  return (step) => {
    const kind = ["walk", "swing", "trend", "jump"][Math.floor(step / 30) % 4];
    if (kind === "walk") middle += choice([-1, 1]);
    if (kind === "trend") middle += 0.8;
    if (kind === "jump") middle = random() * 60;
    middle = middle > 60 ? 5 : Math.max(0, middle);
    return make(Math.round(middle + (kind === "swing" ? 8 * Math.sin(step / 3) : 0)), step);
  };
}

const RANGE = { path: (seed) => walker(seed, (x, step) => ({ lo: x, hi: step % 50 ? x + 5 : null })), last: { lo: 5, hi: 40 } };

for (const seed of [1, 2, 3]) {
  test(`every item is exact whatever overtakes what, seed ${seed}`, async () => {
    const options = { ...RANGE, path: RANGE.path(seed) };
    const { simulation, subscription, items } = await simulated("x BETWEEN :lo AND :hi", seed, options);
    assert.ok(items > 40);
    assert.equal(subscription.patches, simulation.patches);
    assert.ok(simulation.patches < 0.8 * subscription.updates, `${simulation.patches} of ${subscription.updates}`);
  });
}

test("arithmetic and equality are exact", async () => {
  const near = walker(7, (pos, step) => ({ pos, reach: step % 40 < 20 ? 3 : 5 }));
  const around = { path: near, last: { pos: 30, reach: 4 } };
  const where = "x BETWEEN :pos - :reach AND :pos + :reach";
  const { simulation, subscription } = await simulated(where, 8, around);
  const expected = [...simulation.rows.values()].filter(({ x }) => x !== null && Math.abs(x - 30) <= 4);
  assert.deepEqual(byKey(subscription.result), byKey({ rows: expected }), "by the positions themselves");
  assert.ok(subscription.patches < 0.8 * subscription.updates);
  assert.deepEqual(subscription.params, { pos: 30, reach: 4 });
  const there = { path: walker(9, (x) => ({ x })), last: { x: 30 } };
  const one = await simulated("x = :x", 9, there);
  const equal = [...one.simulation.rows.values()].filter(({ x }) => x === 30);
  assert.deepEqual(byKey(one.subscription.result), byKey({ rows: equal }));
});

test("an update of unknown fate is overcome", async () => {
  const { lost } = await simulated("x BETWEEN :lo AND :hi", 11, { ...RANGE, path: RANGE.path(11), losses: 0.15 });
  assert.ok(lost > 0);
});

test("suspending and resuming", async () => {
  await simulated("x BETWEEN :lo AND :hi", 21, { ...RANGE, path: RANGE.path(21), pauses: true });
});

test("a refused update leaves the parameters as they were", async () => {
  const simulation = new Simulation("x BETWEEN :lo AND :hi", { lo: 1, hi: 9 }, 5);
  const { subscription } = simulation;
  await assert.rejects(subscription.patch({ lo: "many" }), { status: 422 });
  assert.deepEqual(subscription.params, { lo: 1, hi: 9 });
  const { patch } = simulation;
  simulation.patch = async () => {
    throw new NotMonitorable("stands for a refusal");
  };
  await assert.rejects(subscription.patch({ lo: 0 }), NotMonitorable);
  assert.deepEqual(subscription.params, { lo: 1, hi: 9 });
  simulation.patch = patch;
  await subscription.patch({ hi: 20 });
  assert.deepEqual(subscription.params, { lo: 1, hi: 20 });
  subscription.close();
});
