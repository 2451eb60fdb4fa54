import assert from "node:assert/strict";
import { test } from "node:test";

import { verifyWebhook } from "../src/webhooks.js";

const SECRET = "a-secret-of-these-tests";
const BODY = '{"frames":[{"seq":9007199254740993}]}';
const SIGNED = "t=100,v1=ef4ebe7d8b1772507e08ca43a51288eb015fa037146de654abf5513b270fca9c"; // as the server signs it

test("what the server signed is believed, as text and as bytes", async () => {
  const expected = { frames: [{ seq: 9007199254740993n }] };
  assert.deepEqual(await verifyWebhook(BODY, SIGNED, SECRET, { now: 399 }), expected);
  assert.deepEqual(await verifyWebhook(new TextEncoder().encode(BODY), `${SIGNED},v1=00`, SECRET, { now: 1 }), expected);
});

test("what was signed otherwise, or long ago, is not", async () => {
  for (const [body, header, secret, now] of [
    [`${BODY} `, SIGNED, SECRET, 100],
    [BODY, SIGNED, "another-secret", 100],
    [BODY, SIGNED.replace("t=100", "t=101"), SECRET, 100],
    [BODY, SIGNED, SECRET, 401],
    [BODY, "t=100", SECRET, 100],
    [BODY, "v1=00", SECRET, 100],
    [BODY, "", SECRET, 100],
  ]) {
    await assert.rejects(verifyWebhook(body, header, secret, { now }), { code: "bad-signature" });
  }
});
