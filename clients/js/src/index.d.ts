/** prosem-client: live SQL subscriptions for browsers and Node.js. */

/** A value as JSON carries it. A whole number that a `number` would round is a `bigint`; `numeric` is text. */
export type Value = null | boolean | number | bigint | string | Value[] | { [name: string]: Value };
/** A value that may be sent: also a Date (ISO 8601) and bytes (base64). */
export type Sendable =
  null | boolean | number | bigint | string | Date | Uint8Array | Sendable[] | { [name: string]: Sendable };
export type Row = Record<string, Value>;

export type Event =
  | { op: "insert" | "upsert"; row: Record<string, Sendable> }
  | { op: "update"; key: Record<string, Sendable>; set: Record<string, Sendable> }
  | { op: "delete"; key: Record<string, Sendable> };

/** An event of a transaction over several tables; here an update may set the key, and a truncate deletes all rows. */
export type TableEvent = { table: string } & (Event | { op: "truncate" });

export interface Column {
  name: string;
  type: string;
  nullable?: boolean;
}

export interface Table {
  name: string;
  columns: Column[];
  primary_key: string[];
  extends?: string;
}

/** A derived table. */
export interface View {
  name: string;
  sql: string;
  columns: Column[];
  primary_key: string[];
  rows?: number;
  uses?: string[];
  used_by?: { views: string[]; groups: string[]; subscriptions: number };
}

/** How answers are folded, as the server says it. */
export interface Fold {
  key?: string[];
  order?: { column: string; descending: boolean; nulls_first: boolean; type: string }[];
  type?: string;
  columns?: { name: string; type: string }[];
  row?: { name: string; type: string }[];
}

/** Exactly one kind, named by its member. */
export interface Result<R extends Row = Row> {
  columns?: Row;
  groups?: R[];
  value?: Value;
  row?: Row | null;
  values?: Value[];
  rows?: R[];
  items?: { key: Row; value: Value }[];
}

export interface Change {
  columns?: Row;
  value?: Value;
  previous?: Value;
  row?: Row | null;
  key?: Row;
  items?: { key: Row; value: Value; previous?: Value }[];
  add?: Value[];
  remove?: Value[];
  update?: Value[];
}

/** `change` took the answer to `result` at `seq`; a snapshot replaces what was known, and has no change. */
export interface Told<R extends Row = Row> {
  id: string;
  seq: number;
  timeline: string | null;
  change: Change | null;
  result: Result<R> | null;
  snapshot: boolean;
}

export interface Published {
  first_seq: number;
  last_seq: number;
  count: number;
  errors?: { at: string; detail: string }[];
}

export interface Notify {
  change?: Sendable;
  percent?: number;
  factor?: number;
  may?: Sendable;
  must?: Sendable;
}

export interface About {
  id: string;
  type: string;
  group: string;
  sql: string;
  params: Record<string, Value>;
  notify: Notify | null;
  active: boolean;
  durable: boolean;
  per: "event" | "transaction";
  created_seq: number;
  /** Of one subscription; lists have none. */
  fold?: Fold;
}

export type Params = Record<string, Sendable | PinnedVariable<any>>;
export type State = "connecting" | "connected" | "disconnected" | "closed";

export interface ClientOptions {
  /** The key, if the server needs one. */
  apiKey?: string;
  /** Sent with every call. A browser's WebSocket cannot send headers. */
  headers?: Record<string, string>;
  /** How long one attempt may take (30 s). */
  timeoutMs?: number;
  /** How long a call is repeated after lost connections (10 s). */
  reconnectMs?: number;
  /** How long in all a call is repeated while the server answers 503 or 429 with Retry-After (120 s). */
  busyMs?: number;
  /** A stream that is silent for this long is opened again (15 s). */
  aliveMs?: number;
  /** Changes kept for a slow consumer before its subscription is detached for a while (1024). */
  queueLimit?: number;
  /** Attach a subscription at the broker that the server names for it, if that can be reached (true). */
  followRedirects?: boolean;
  /** Told whenever the stream connects or is lost. */
  onState?: (state: State) => void;
  fetch?: typeof globalThis.fetch;
  /** A class with the browser's interface; needed only where there is neither a global one nor Node.js. */
  WebSocket?: new (url: string) => any;
}

export class Client {
  constructor(url?: string, options?: ClientOptions);
  readonly url: string;
  request(method: string, path: string, body?: unknown): Promise<any>;
  createTable(name: string, columns: Record<string, string> | Column[], primaryKey: string[]): Promise<Table>;
  tables(): Promise<Table[]>;
  table(name: string): Promise<Table>;
  dropTable(name: string): Promise<void>;
  createView(name: string, sql: string, options?: { timeoutMs?: number }): Promise<View>;
  views(): Promise<View[]>;
  view(name: string): Promise<View>;
  dropView(name: string): Promise<void>;
  publish(table: string, events: Event[], options?: { idempotencyKey?: string }): Promise<Published>;
  transact(events: TableEvent[], options?: { idempotencyKey?: string }): Promise<Published>;
  publishMany(table: string, events: Event[], options?: { idempotencyKey?: string }): Promise<Published>;
  publisher(options?: { inFlight?: number }): Publisher;
  /** Messages instead of changes. */
  subscribe(
    sql: string,
    params: Params | undefined,
    options: { notify?: Notify; id?: string; durable?: boolean; raw: true },
  ): Promise<RawSubscription>;
  /** Parameters that move often cost few requests; NotMonitorable if the answer cannot be checked by the client. */
  subscribe<R extends Row = Row>(
    sql: string,
    params: Params | undefined,
    options: {
      id?: string;
      durable?: boolean;
      per?: "event" | "transaction";
      snapshot?: boolean;
      monitor: true | UpdateMonitor;
    },
  ): Promise<MonitoredSubscription<R>>;
  /** `R` is the type of the rows or groups of its answers. */
  subscribe<R extends Row = Row>(
    sql: string,
    params?: Params,
    options?: { notify?: Notify; id?: string; durable?: boolean; per?: "event" | "transaction"; snapshot?: boolean },
  ): Promise<Subscription<R>>;
  attach<R extends Row = Row>(
    id: string,
    options?: { after?: number; timeline?: string | null; result?: Result | null; snapshot?: boolean },
  ): Promise<Subscription<R>>;
  subscribeMany(
    sql: string,
    rows: { id?: string; params: Record<string, Sendable> }[],
    options?: { notify?: Notify; durable?: boolean; per?: "event" | "transaction" },
  ): Promise<{ group: string; type: string; seq: number; ids: string[] }>;
  subscriptions(query?: { group?: string; type?: string; limit?: number; after?: string }): Promise<About[]>;
  result(id: string): Promise<{ id: string; seq: number; timeline?: string; result: Result }>;
  deleteSubscription(id: string): Promise<void>;
  pin(value: number): PinnedVariable<number>;
  pin(value: string): PinnedVariable<string>;
  pin(value: Sendable): PinnedVariable;
  status(): Promise<any>;
  types(): Promise<any[]>;
  close(): void;
}

export class Subscription<R extends Row = Row> implements AsyncIterableIterator<Told<R>> {
  private constructor();
  readonly id: string;
  readonly type: string;
  readonly group: string;
  readonly fold: Fold;
  readonly seq: number;
  readonly timeline: string | null;
  readonly result: Result<R> | null;
  readonly params: Record<string, Sendable>;
  [Symbol.asyncIterator](): this;
  next(): Promise<IteratorResult<Told<R>, undefined>>;
  /** Call back with every change instead of iterating; the function it returns closes the subscription. */
  listen(changed: (told: Told<R>) => void, failed?: (error: Error) => void): () => void;
  return(value?: any): Promise<IteratorResult<Told<R>, undefined>>;
  patch(params: Params): Promise<{ id: string; seq: number; result: Result }>;
  suspend(): Promise<void>;
  resume(): Promise<void>;
  close(): void;
  delete(): Promise<void>;
}

/** When the update monitor widens a range, and how much. */
export interface UpdateMonitor {
  /** Updates per second of an end from which it is widened (5). */
  frequencyHz?: number;
  /** The time over which they are counted, how far ahead is looked, and after which a range at rest is exact again (1 s). */
  windowMs?: number;
  /** This share of the expected band is added on its outer side (0.25). */
  margin?: number;
}

/** The exact answer, while the server has a wider range. */
export class MonitoredSubscription<R extends Row = Row> implements AsyncIterableIterator<Told<R>> {
  private constructor();
  readonly id: string;
  readonly type: string;
  readonly group: string;
  readonly fold: Fold;
  readonly seq: number;
  readonly timeline: string | null;
  readonly result: Result<R>;
  readonly params: Record<string, Sendable>;
  /** Updates of the parameters that came into force. */
  readonly updates: number;
  /** Requests they took. */
  readonly patches: number;
  [Symbol.asyncIterator](): this;
  next(): Promise<IteratorResult<Told<R>, undefined>>;
  listen(changed: (told: Told<R>) => void, failed?: (error: Error) => void): () => void;
  return(value?: any): Promise<IteratorResult<Told<R>, undefined>>;
  /** Done when they are in force, or will be when the stream gets there; a request is made if it must. */
  patch(params: Params): Promise<void>;
  suspend(): Promise<void>;
  resume(): Promise<void>;
  close(): void;
  delete(): Promise<void>;
}

/** The messages of one event for a raw stream; `snapshot`: they begin with the whole state. */
export interface RawItem {
  id: string;
  seq: number;
  timeline: string | null;
  messages: ({ message: string } & Record<string, Value>)[];
  snapshot: boolean;
}

/** SQL for a SQLite database of the client, as `GET /v1/types` has it. */
export interface Rules {
  schema: string[];
  update: Record<string, string[]>;
  transform: string;
}

export class RawSubscription implements AsyncIterableIterator<RawItem> {
  private constructor();
  readonly id: string;
  readonly type: string;
  readonly group: string;
  readonly seq: number;
  readonly params: Record<string, Sendable>;
  rules(): Promise<Rules>;
  [Symbol.asyncIterator](): this;
  next(): Promise<IteratorResult<RawItem, undefined>>;
  listen(changed: (item: RawItem) => void, failed?: (error: Error) => void): () => void;
  return(value?: any): Promise<IteratorResult<RawItem, undefined>>;
  patch(params: Params): Promise<{ id: string; seq: number; result: Result }>;
  suspend(): Promise<void>;
  resume(): Promise<void>;
  close(): void;
  delete(): Promise<void>;
}

export class Publisher {
  private constructor();
  publish(table: string, events: Event[]): Promise<Published>;
  close(): void;
}

export class PinnedVariable<T = Sendable> {
  constructor(value: T);
  value: T;
  readonly last: T;
  release(): Promise<void>;
}

/** Release several variables at once: a subscription that uses them moves in one step. */
export function release(...variables: PinnedVariable<any>[]): Promise<void>;

/** The result after a change; `key` tells rows and groups apart, `order` sorts rows, `type` orders values of a DISTINCT. */
export function fold(result: Result, change: Change, shape?: Fold): Result;

/** What a webhook posts: frames as on the socket, in the order of their `seq`. `delivery` is the same when it is sent again. */
export interface Delivery {
  webhook: string;
  delivery: string;
  frames: {
    id: string;
    seq?: number;
    timeline?: string;
    snapshot?: Result;
    change?: Change;
    error?: { status: number; detail: string };
  }[];
}

/** The delivery in the body of a request, if its header X-ProSem-Signature was made with the secret, and of late. */
export function verifyWebhook(
  body: string | Uint8Array | ArrayBuffer,
  signature: string,
  secret: string,
  options?: { toleranceS?: number; now?: number },
): Promise<Delivery>;
export class BadSignature extends ProsemError {
  constructor(detail: string);
}

/** JSON without lost digits. */
export function parse(text: string): Value;
export function encode(value: unknown): string;

export class ProsemError extends Error {
  constructor(status: number, code: string, detail: string, errors?: { at: string; detail: string }[]);
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly errors: { at: string; detail: string }[];
  readonly highlight: string;
  static ofProblem(problem: unknown, status?: number): ProsemError;
}
export class ConnectionLost extends ProsemError {
  constructor(detail: string);
}
export class NotMonitorable extends ProsemError {
  constructor(detail: string);
}
export class Closed extends ProsemError {
  constructor(detail?: string);
}
export class OutOfStep extends ProsemError {
  constructor(detail: string);
}
