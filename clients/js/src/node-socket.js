/**
 * A WebSocket client for Node.js 20, which has none: RFC 6455 over `node:http`, text frames only.
 *
 * It has the part of the browser's interface that the client uses: onopen, onmessage, onerror, onclose, send,
 * close, readyState. No extension is offered, so frames are never compressed.
 */

import { createHash, randomBytes } from "node:crypto";
import { request as plain } from "node:http";
import { request as secure } from "node:https";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const TEXT = 1;
const CLOSE = 8;
const PING = 9;
const PONG = 10;
const LARGEST_BYTES = 1 << 28;

export class NodeSocket {
  constructor(url) {
    this.readyState = 0;
    this.onopen = this.onmessage = this.onerror = this.onclose = null;
    const target = new URL(url.replace(/^ws/, "http"));
    const key = randomBytes(16).toString("base64");
    const headers = {
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Key": key,
      "Sec-WebSocket-Version": "13",
    };
    this._request = (target.protocol === "https:" ? secure : plain)(target, { headers });
    this._request.on("upgrade", (response, socket, head) => {
      const expected = createHash("sha1")
        .update(key + GUID)
        .digest("base64");
      if (response.headers["sec-websocket-accept"] !== expected) return this._fail(new Error("no WebSocket server"));
      this._opened(socket, head);
    });
    this._request.on("response", (response) => this._fail(new Error(`answered with ${response.statusCode}`)));
    this._request.on("error", (error) => this._fail(error));
    this._request.end();
  }

  send(text) {
    if (this.readyState === 1) this._write(TEXT, Buffer.from(text));
  }

  close() {
    if (this.readyState >= 2) return;
    const wasOpen = this.readyState === 1;
    this.readyState = 2;
    if (!wasOpen) {
      this._request.destroy();
      this._ended();
      return;
    }
    this._write(CLOSE, Buffer.from([3, 232])); // 1000: a normal end
    this._timer = setTimeout(() => this._socket.destroy(), 1000);
  }

  _opened(socket, head) {
    if (this.readyState !== 0) return socket.destroy();
    this._socket = socket;
    this._pending = [head];
    this._size = head.length;
    this._message = [];
    this.readyState = 1;
    socket.setNoDelay(true);
    socket.on("data", (data) => this._take(data));
    socket.on("error", () => {});
    socket.on("close", () => this._ended());
    this.onopen?.({});
    this._take(Buffer.alloc(0));
  }

  _fail(error) {
    if (this.readyState === 3) return;
    this._request.destroy();
    this.onerror?.({ error });
    this._ended();
  }

  _ended() {
    if (this.readyState === 3) return;
    clearTimeout(this._timer);
    this.readyState = 3;
    this.onclose?.({});
  }

  /** Every frame that is complete. Chunks are joined only when a frame's end has come: linear in the bytes. */
  _take(data) {
    this._pending.push(data);
    this._size += data.length;
    if (this._size < (this._needed ?? 2)) return;
    let bytes = Buffer.concat(this._pending);
    for (let frame = next(bytes); frame.needed <= bytes.length; frame = next(bytes)) {
      this._frame(frame, bytes.subarray(frame.start, frame.needed));
      bytes = bytes.subarray(frame.needed);
    }
    const { needed } = next(bytes);
    if (needed > LARGEST_BYTES) this._socket.destroy();
    this._needed = needed;
    this._pending = [bytes];
    this._size = bytes.length;
  }

  _frame({ opcode, isFinal }, payload) {
    if (opcode === PING) this._write(PONG, payload);
    else if (opcode === CLOSE) {
      if (this.readyState === 1) this._write(CLOSE, payload.subarray(0, 2));
      this.readyState = 2;
      this._socket.end();
    } else if (opcode < CLOSE) {
      this._message.push(Buffer.from(payload));
      if (!isFinal) return;
      const text = Buffer.concat(this._message).toString("utf8");
      this._message = [];
      if (this.readyState === 1) this.onmessage?.({ data: text });
    }
  }

  /** A frame, masked as every client must. */
  _write(opcode, payload) {
    const size = payload.length;
    const head = Buffer.alloc(size < 126 ? 2 : size < 65536 ? 4 : 10);
    head[0] = 0x80 | opcode;
    head[1] = 0x80 | (size < 126 ? size : size < 65536 ? 126 : 127);
    if (head.length === 4) head.writeUInt16BE(size, 2);
    if (head.length === 10) head.writeBigUInt64BE(BigInt(size), 2);
    const mask = randomBytes(4);
    const masked = Buffer.from(payload);
    for (let at = 0; at < size; at += 1) masked[at] ^= mask[at & 3];
    this._socket.write(Buffer.concat([head, mask, masked]));
  }
}

/** The head of the first frame: where its payload starts, and how many bytes it needs in all. */
function next(bytes) {
  if (bytes.length < 2) return { needed: 2 };
  const short = bytes[1] & 0x7f;
  const start = short < 126 ? 2 : short === 126 ? 4 : 10;
  if (bytes.length < start) return { needed: start };
  const size = short < 126 ? short : short === 126 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
  return { opcode: bytes[0] & 15, isFinal: (bytes[0] & 0x80) !== 0, start, needed: start + size };
}
