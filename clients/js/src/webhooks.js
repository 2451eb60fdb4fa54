/** The receiver's side of webhooks: is this request from the server, and new? */

import { ProsemError } from "./errors.js";
import { parse } from "./json.js";

const TOLERANCE_S = 300;

/** The request was not signed with this secret, or too long ago. */
export class BadSignature extends ProsemError {
  constructor(detail) {
    super(0, "bad-signature", detail);
  }
}

/**
 * The delivery in a body, given as the bytes or the text that came over the wire. Rejects with BadSignature if it must
 * not be believed. `signature` is the header X-ProSem-Signature: `t=<seconds>,v1=<hex>`.
 */
export async function verifyWebhook(body, signature, secret, { toleranceS = TOLERANCE_S, now = Date.now() / 1000 } = {}) {
  const parts = String(signature).split(",").map((part) => part.trim().split("="));
  const moments = parts.filter(([name]) => name === "t").map(([, value]) => value);
  if (moments.length !== 1 || !/^\d{1,14}$/.test(moments[0])) {
    throw new BadSignature("the signature must look like t=<seconds>,v1=<hex>");
  }
  const text = new TextEncoder();
  const bytes = typeof body === "string" ? text.encode(body) : new Uint8Array(body);
  const head = text.encode(`${Number(moments[0])}.`);
  const signed = new Uint8Array(head.length + bytes.length);
  signed.set(head);
  signed.set(bytes, head.length);
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", text.encode(secret), algorithm, false, ["verify"]);
  let isSigned = false;
  for (const [name, value] of parts) {
    if (name === "v1" && /^[0-9a-f]{64}$/.test(value)) {
      const digest = Uint8Array.from(value.match(/../g), (pair) => Number.parseInt(pair, 16));
      isSigned = (await crypto.subtle.verify("HMAC", key, digest, signed)) || isSigned;
    }
  }
  if (!isSigned) {
    throw new BadSignature("the body was not signed with this secret");
  }
  if (Math.abs(now - Number(moments[0])) > toleranceS) {
    throw new BadSignature(`it was signed more than ${toleranceS} s ago, or ahead of this clock`);
  }
  return parse(new TextDecoder().decode(bytes));
}
