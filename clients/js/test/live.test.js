/** Against a running server, whose address is PROSEM_URL; a proxy between cuts the connections. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createServer, connect } from "node:net";
import { createInterface } from "node:readline";
import { after, test } from "node:test";

import { Client, ProsemError, release } from "../src/index.js";
import { identity } from "../src/json.js";

const URL_GIVEN = process.env.PROSEM_URL;
const options = { skip: URL_GIVEN ? false : "set PROSEM_URL to a running server", timeout: 60_000 };
const clients = [];
after(() => clients.forEach((client) => client.close()));

function made(url = URL_GIVEN, settings = {}) {
  clients.push(new Client(url, settings));
  return clients.at(-1);
}

let number = 0;
async function table(client, columns = { k: "integer", x: "integer", y: "integer", s: "text" }) {
  number += 1;
  const name = `js_${process.pid}_${number}`;
  await client.createTable(name, columns, ["k"]);
  return name;
}

const upsert = (row) => ({ op: "upsert", row });

/** Consume up to and with the item of which this is true; a `for await` would close the subscription. */
async function until(subscription, condition) {
  for (;;) {
    const { value, done } = await subscription.next();
    assert.ok(!done, "the stream ended");
    if (condition(value)) return value;
  }
}

/** A proxy of the server that can break every connection. */
async function proxy() {
  const { hostname, port } = new URL(URL_GIVEN);
  const open = new Set();
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ]) {
      open.add(one);
      one.on("close", () => (open.delete(one), other.destroy()));
      one.on("error", () => {});
      one.pipe(other);
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  after(() => (server.close(), cut()));
  const cut = () => open.forEach((socket) => socket.destroy());
  return { url: `http://127.0.0.1:${server.address().port}`, cut };
}

test("subscribe, be told, move, delete", options, async () => {
  const client = made();
  const t = await table(client);
  await client.publish(t, [upsert({ k: 1, x: 10, y: 7 }), upsert({ k: 2, x: 30, y: 3 })]);
  const sql = `SELECT MIN(y) FROM ${t} WHERE x BETWEEN :lo AND :hi`;
  const lowest = await client.subscribe(sql, { lo: 0, hi: 20 }, { snapshot: true });
  assert.equal(lowest.type, "range-min");
  assert.equal((await lowest.next()).value.result.value, 7);
  const { last_seq } = await client.publish(t, [upsert({ k: 3, x: 12, y: 5 })]);
  const told = (await lowest.next()).value;
  assert.deepEqual([told.seq, told.result.value, told.result.row.k], [last_seq, 5, 3]);
  await lowest.patch({ hi: 40 });
  assert.equal((await lowest.next()).value.result.value, 3);
  await lowest.suspend();
  await client.publish(t, [upsert({ k: 4, x: 1, y: 1 })]);
  await lowest.resume();
  assert.equal((await lowest.next()).value.result.value, 1);
  await lowest.delete();
  assert.equal((await lowest.next()).done, true);
  await assert.rejects(client.result(lowest.id), { status: 404 });
});

test("callbacks instead of a loop", options, async () => {
  const client = made();
  const t = await table(client);
  const rows = await client.subscribe(`SELECT k, x FROM ${t} WHERE x > :x`, { x: 0 });
  const seen = [];
  let stop;
  const two = new Promise((done, failed) => {
    stop = rows.listen(({ result }) => seen.push(result.rows.length) === 2 && done(), failed);
  });
  await client.publish(t, [upsert({ k: 1, x: 1 }), upsert({ k: 2, x: 0 }), upsert({ k: 3, x: 3 })]);
  await two;
  assert.deepEqual(seen, [1, 2]);
  stop();
  assert.equal((await rows.next()).done, true);
  const broken = await client.subscribe(`SELECT COUNT(*) FROM ${t}`);
  const error = new Promise((failed) => {
    broken.listen(() => {
      throw new RangeError("of the callback");
    }, failed);
  });
  await client.publish(t, [upsert({ k: 4, x: 4 })]);
  assert.equal((await error).message, "of the callback");
  await Promise.all([rows.delete(), broken.delete()]);
});

test("refusals are errors that say where", options, async () => {
  const client = made();
  const t = await table(client);
  await assert.rejects(client.publish(t, [upsert({ k: 1 }), upsert({ k: "x" })]), (error) => {
    assert.ok(error instanceof ProsemError);
    assert.deepEqual([error.status, error.errors[0].at], [422, "/events/1/row/k"]);
    return true;
  });
  await assert.rejects(client.subscribe("SELECT nothing"), { status: 422 });
  const many = await client.publishMany(t, [upsert({ k: 1 }), upsert({ k: 2 }), upsert({ k: null }), upsert({ k: 4 })]);
  assert.deepEqual([many.count, many.errors[0].at.split("/")[1]], [2, "2"]);
  const lost = new Client("http://127.0.0.1:9", { reconnectMs: 10 });
  await assert.rejects(lost.status(), { code: "connection-lost" });
});

test("whole numbers of 64 bits and numerics stay exact", options, async () => {
  const client = made();
  const t = await table(client, { k: "bigint", v: "bigint", n: "numeric(30,4)", raw: "bytea" });
  const row = {
    k: 9007199254740993n,
    v: -9223372036854775808n,
    n: "12345678901234567890.1234",
    raw: new Uint8Array([1]),
  };
  await client.publish(t, [upsert(row), upsert({ k: 9007199254740992n, v: 5, n: "1" })]);
  const rows = await client.subscribe(`SELECT * FROM ${t} WHERE k > :k`, { k: 9007199254740992n });
  assert.deepEqual(rows.result.rows, [{ ...row, raw: "AQ==" }]);
  await client.publish(t, [{ op: "delete", key: { k: 9007199254740993n } }]);
  assert.deepEqual((await rows.next()).value.result.rows, []);
});

test("every kind folds to the server's answer, over cut connections", options, async () => {
  const { url, cut } = await proxy();
  const states = [];
  const client = made(url, { onState: (state) => states.push(state) });
  const direct = made();
  const t = await table(direct);
  const other = await table(direct, { k: "integer", y: "integer", z: "integer" });
  const queries = [
    [`SELECT * FROM ${t} JOIN ${other} USING (y) WHERE x BETWEEN 10 AND 90 AND z < 60`],
    [`SELECT MIN(y) FROM ${t} WHERE x BETWEEN 10 AND 60`],
    [`SELECT SUM(y) FROM ${t} WHERE s = 'a'`],
    [`SELECT COUNT(*) FROM ${t} WHERE x < 50`],
    [`SELECT DISTINCT y FROM ${t} WHERE x < 80`],
    [`SELECT * FROM ${t} WHERE y > 5 OR s = 'b'`],
    [`SELECT y FROM ${t} WHERE k = 3`, { change: 2 }],
    [`SELECT y FROM ${t} WHERE k IN (1, 2, 3)`],
  ];
  const watched = await Promise.all(queries.map(([sql, notify]) => client.subscribe(sql, {}, { notify })));
  const tick = await client.subscribe(`SELECT COUNT(*) FROM ${t}`);
  const random = (n) => Math.floor(Math.random() * n);
  for (let step = 0; step < 60; step += 1) {
    const event = () => upsert({ k: random(12), x: random(100), y: random(9), s: "abc"[random(3)] });
    await direct.publish(t, [event(), event()]);
    if (step % 3 === 0) await direct.publish(other, [upsert({ k: random(5), y: random(9), z: random(100) })]);
    if (step % 15 === 7) cut();
  }
  await direct.publish(t, [upsert({ k: 10_000, x: 999, y: null, s: null })]);
  const { result: total } = await direct.result(tick.id);
  await until(tick, ({ result }) => result.value === total.value);
  for (const subscription of watched) {
    const { result } = await direct.result(subscription.id);
    const sorted = (answer) => (answer.rows ?? answer.items ?? []).map(identity).sort();
    const same = () =>
      result.rows || result.items
        ? identity(sorted(result)) === identity(sorted(subscription.result))
        : subscription.result.value === result.value &&
          identity(subscription.result.values ?? 0) === identity(result.values ?? 0);
    let last = subscription.seq;
    while (!same()) {
      const { value } = await subscription.next();
      assert.ok(value.snapshot || value.seq > last, "in order, none twice");
      last = value.seq;
    }
    assert.ok(same());
  }
  assert.ok(states.filter((state) => state === "connected").length > 1, `it was cut: ${states}`);
});

test("the example of the README runs as it stands", options, async () => {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const example = /```js\n(.*?)```/s.exec(readme)[1];
  const t = `js_readme_${process.pid}`;
  const script = example
    .replace('"prosem-client"', JSON.stringify(new URL("../src/index.js", import.meta.url).href))
    .replace("http://127.0.0.1:8080", URL_GIVEN)
    .replaceAll("stocks", t);
  const child = spawn(process.execPath, ["--input-type=module", "-e", script]);
  const lines = createInterface({ input: child.stdout });
  after(() => child.kill());
  const first = await new Promise((done, fail) => {
    lines.once("line", done);
    child.stderr.once("data", (data) => fail(new Error(String(data))));
  });
  assert.match(first, /^\d+ \{/);
});

test("a slow consumer loses nothing, and nothing comes twice", options, async () => {
  const client = made(URL_GIVEN, { queueLimit: 3 });
  const t = await table(client);
  const count = await client.subscribe(`SELECT COUNT(*) FROM ${t}`);
  const publisher = client.publisher();
  await Promise.all(Array.from({ length: 30 }, (_, k) => publisher.publish(t, [{ op: "insert", row: { k } }])));
  const seen = [];
  await until(count, ({ result }) => seen.push(result.value) && result.value === 30);
  assert.deepEqual(
    seen,
    Array.from({ length: 30 }, (_, k) => k + 1),
  );
  await assert.rejects(publisher.publish(t, [{ op: "insert", row: { k: 1 } }]), { status: 409 });
  assert.equal((await publisher.publish(t, [upsert({ k: 31 })])).count, 1);
});

test("going on later, in another client", options, async () => {
  const first = made();
  const t = await table(first);
  const rows = await first.subscribe(`SELECT * FROM ${t} WHERE x > 0`, {}, { id: `later-${t}` });
  await first.publish(t, [upsert({ k: 1, x: 1 })]);
  await rows.next();
  const saved = { after: rows.seq, result: rows.result };
  first.close();
  const second = made();
  await second.publish(t, [upsert({ k: 2, x: 2 }), { op: "delete", key: { k: 1 } }]);
  const again = await second.attach(`later-${t}`, saved);
  const told = [(await again.next()).value, (await again.next()).value];
  assert.deepEqual(
    told.map(({ snapshot }) => snapshot),
    [false, false],
  );
  assert.deepEqual(
    told[1].result.rows.map(({ k }) => k),
    [2],
  );
});

test("what is not durable is made anew after a lost connection", options, async () => {
  const { url, cut } = await proxy();
  const client = made(url);
  const direct = made();
  const t = await table(direct);
  const count = await client.subscribe(`SELECT COUNT(*) FROM ${t}`, {}, { durable: false });
  await direct.publish(t, [upsert({ k: 1 })]);
  assert.equal((await count.next()).value.result.value, 1);
  const id = count.id;
  cut();
  while ((await direct.subscriptions({ limit: 10_000 })).some((known) => known.id === id)) {
    await new Promise((done) => setTimeout(done, 20));
  }
  await direct.publish(t, [upsert({ k: 2 })]);
  const told = await until(count, ({ result }) => result.value === 2);
  assert.equal(told.result.value, 2);
});

test("pinned variables move every subscription that follows them, when released", options, async () => {
  const client = made();
  const t = await table(client);
  await client.publish(
    t,
    Array.from({ length: 10 }, (_, k) => upsert({ k, x: k, y: k })),
  );
  const sql = `SELECT COUNT(*) FROM ${t} WHERE x BETWEEN :at - :reach AND :at + :reach`;
  const [at, reach] = [client.pin(0), client.pin(1)];
  const near = await client.subscribe(sql, { at, reach });
  const wide = await client.subscribe(sql, { at, reach: 3 });
  assert.deepEqual([near.result.value, wide.result.value], [2, 4]);
  at.value = 5;
  assert.equal(at.last, 0);
  reach.value = 2;
  await release(at, reach);
  assert.deepEqual([(await near.next()).value.result.value, (await wide.next()).value.result.value], [5, 7]);
  assert.deepEqual(wide.params, { at: 5, reach: 3 });
});

test("a transaction over several tables is told as a whole, once", options, async () => {
  const client = made();
  const [one, other] = [await table(client), await table(client)];
  const joined = await client.subscribe(`SELECT * FROM ${one} JOIN ${other} USING (x)`);
  const events = [one, other].map((name, k) => ({ table: name, ...upsert({ k, x: 5, y: 1, s: "a" }) }));
  const done = await client.transact(events, { idempotencyKey: `js-${one}` });
  assert.equal(done.count, 2);
  assert.deepEqual(await client.transact(events, { idempotencyKey: `js-${one}` }), done);
  const told = await until(joined, ({ seq }) => seq === done.last_seq);
  assert.deepEqual(Object.keys(told.result.rows[0]).sort(), [one, other].sort());
  await assert.rejects(
    client.transact([
      { table: one, op: "truncate" },
      { table: "nowhere", op: "truncate" },
    ]),
    {
      name: "ProsemError",
      status: 404,
    },
  );
  assert.equal((await client.result(joined.id)).result.rows.length, 1, "nothing of it was applied");
});

test("a raw stream has the messages, beginning with the state", options, async () => {
  const middle = await proxy();
  const client = made(middle.url);
  const name = await table(client);
  await client.publish(name, [upsert({ k: 1, x: 1, y: 10 })]);
  const raw = await client.subscribe(`SELECT SUM(y) FROM ${name}`, {}, { raw: true });
  const { value: first } = await raw.next();
  assert.deepEqual([first.snapshot, first.messages[0].message], [true, "state"]);
  await client.publish(name, [upsert({ k: 2, x: 1, y: 5 })]);
  const { value: second } = await raw.next();
  assert.deepEqual(second.messages.map(({ message, count, sum }) => [message, count, sum]), [["delta", 1, "5"]]);
  assert.equal(second.snapshot, false);
  assert.ok((await raw.rules()).update.delta.length > 0);
  middle.cut();
  const { value: again } = await raw.next();
  assert.deepEqual([again.snapshot, again.messages[0].message], [true, "state"], "it is not resumed");
  await raw.delete();
});

test("an update monitor has the answer of a plain subscription for fewer requests", options, async () => {
  const client = made();
  const t = await table(client);
  await client.publish(t, Array.from({ length: 100 }, (_, k) => upsert({ k, x: k })));
  const settings = { monitor: { frequencyHz: 4 } };
  const sorted = (result) => identity([...result.rows].sort((a, b) => a.k - b.k));
  for (const where of ["x BETWEEN :pos - :reach AND :pos + :reach", "x = :pos AND y IS NULL AND k >= :reach - 3"]) {
    const sql = `SELECT * FROM ${t} WHERE ${where}`;
    const start = { pos: 45, reach: 3 };
    const [plain, monitored] = [await client.subscribe(sql, start), await client.subscribe(sql, start, settings)];
    for (let at = 0; at < 80; at += 1) {
      const pos = Math.round(50 + 20 * Math.sin(at / 4));
      const moved = monitored.patch({ pos });
      await plain.patch({ pos });
      if (at % 3 === 0) await client.publish(t, [upsert({ k: (7 * at) % 110, x: at % 2 ? null : (11 * at) % 100 })]);
      const { result } = await client.result(plain.id);
      if (sorted(monitored.result) !== sorted(result)) {
        await until(monitored, (told) => sorted(told.result) === sorted(result));
      }
      await moved;
    }
    assert.ok(monitored.updates > 30);
    assert.ok(monitored.patches < 0.6 * monitored.updates, `${monitored.patches} for ${monitored.updates}`);
    const [{ result }, { id }] = [await client.result(plain.id), monitored];
    monitored.close();
    for (;;) if (sorted((await client.result(id)).result) === sorted(result)) break; // closing leaves the exact range
    await Promise.all([plain.delete(), client.deleteSubscription(id)]);
  }
  await assert.rejects(client.subscribe(`SELECT * FROM ${t} WHERE s = :s`, { s: "a" }, settings), {
    code: "not-monitorable",
  });
});
