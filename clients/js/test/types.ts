/** Checked by `tsc --noEmit`, never run: what the declarations allow, and what they refuse. */

import { Client, ProsemError, fold, release, type Told } from "prosem-client";

export async function allowed(): Promise<number> {
  const client = new Client("http://127.0.0.1:8080", { onState: (state) => console.log(state.length) });
  const at = client.pin(5);
  const subscription = await client.subscribe("SELECT 1", { at, b: 7n }, { notify: { percent: 3 }, snapshot: true });
  for await (const told of subscription) {
    const { result, seq }: Told = told;
    console.log(result?.value, seq + 1);
  }
  const typed = await client.subscribe<{ symbol: string; price: string }>("SELECT symbol, price FROM stocks");
  const stop = typed.listen(({ result }) => console.log(result?.rows?.[0]?.symbol.length));
  stop();
  // @ts-expect-error there is no such column
  typed.result?.rows?.[0]?.colour;
  const near = "SELECT * FROM cars WHERE x BETWEEN :at - 2 AND :at + 2";
  const monitored = await client.subscribe<{ x: number }>(near, { at }, { monitor: { windowMs: 500 } });
  await monitored.patch({ at: 7 });
  console.log(monitored.patches <= monitored.updates, monitored.result.rows?.[0]?.x.toFixed());
  at.value = 6;
  await release(at);
  await client.publish("t", [{ op: "upsert", row: { a: new Date(), b: new Uint8Array(), c: 5n } }]);
  await client.transact([
    { table: "t", op: "truncate" },
    { table: "u", op: "update", key: { k: 1 }, set: { k: 2 } },
  ]);
  fold({ rows: [] }, { add: [{ k: 1 }] }, { key: ["k"] });
  try {
    return (await client.result("x")).seq;
  } catch (error) {
    return error instanceof ProsemError ? error.errors.length : 0;
  }
}

export async function refused(client: Client): Promise<void> {
  // @ts-expect-error no such operation
  await client.publish("t", [{ op: "nope" }]);
  // @ts-expect-error the event names no table
  await client.transact([{ op: "insert", row: {} }]);
  // @ts-expect-error a pinned number stays one
  client.pin(5).value = "x";
  // @ts-expect-error the update monitor needs rows
  await client.subscribe("SELECT 1", {}, { monitor: true, notify: { percent: 3 } });
  // @ts-expect-error a subscription is made by a client
  new (await client.subscribe("SELECT 1")).constructor();
}
