/** @prosem/react: answers of SQL queries as state that stays current. */

import type { ReactElement, ReactNode } from "react";
import type {
  Change,
  Client,
  ClientOptions,
  Event,
  Notify,
  Published,
  Result,
  Row,
  Sendable,
  UpdateMonitor,
} from "prosem-client";

export type ProviderProps = { children?: ReactNode } & (
  { client: Client } | ({ client?: undefined; url?: string } & ClientOptions)
);
/** One client, and so one socket, for everything below. */
export function ProsemProvider(props: ProviderProps): ReactElement;

export interface AnswerOptions {
  notify?: Notify;
  per?: "event" | "transaction";
  /** Parameters that change often cost few requests; only for rows of a range. */
  monitor?: true | UpdateMonitor;
  /** Suspend until there is an answer, and throw errors to the nearest error boundary. */
  suspense?: boolean;
}

/** A result whose rows have this type. */
export type ResultOf<R extends Row> = Omit<Result, "rows" | "groups"> & { rows?: R[]; groups?: R[] };

export interface Answer<R extends Row = Row> {
  status: "loading" | "live" | "error";
  /** The answer as of `seq`; null until there is one. It stays while parameters move, and while the connection is lost. */
  result: ResultOf<R> | null;
  /** What the last event changed; null of a snapshot. */
  change: Change | null;
  seq: number | null;
  error: Error | null;
}

/** The answer of a query, and every change of it. Other parameters move the same subscription. */
export function useAnswer<R extends Row = Row>(
  sql: string,
  params?: Record<string, Sendable>,
  options?: AnswerOptions,
): Answer<R>;

/** The rows of a view or a table, by its name. */
export function useView<R extends Row = Row>(name: string, options?: AnswerOptions): Answer<R> & { rows: R[] };

/** A function that publishes events of a table as one transaction. */
export function usePublish(): (
  table: string,
  events: Event[],
  options?: { idempotencyKey?: string },
) => Promise<Published>;

/** The client of the provider. */
export function useClient(): Client;
