/** @prosem/react: answers of SQL queries as state that stays current. */

import {
  createContext,
  createElement,
  use,
  useCallback,
  useContext,
  useEffect,
  useState,
  useSyncExternalStore,
} from "react";
import { AnswerStore, LOADING, keyOf } from "./store.js";

const Store = createContext(null);

/** One client, and so one socket, for everything below. */
export function ProsemProvider({ children, ...options }) {
  const [store] = useState(() => new AnswerStore(options));
  useEffect(() => store.open(), [store]);
  return createElement(Store.Provider, { value: store }, children);
}

function useStore() {
  const store = useContext(Store);
  if (!store) throw new Error("useAnswer, usePublish and useView need a <ProsemProvider> around them");
  return store;
}

/** The client of the provider. */
export const useClient = () => useStore().client;

/**
 * The answer of a query, and every change of it: `{status, result, change, seq, error}`.
 *
 * Other parameters move the same subscription; until the server has moved it the previous answer is shown. With `suspense`
 * the component suspends until there is an answer, and an error is thrown to the nearest error boundary.
 */
export function useAnswer(sql, params = {}, options = {}) {
  const store = useStore();
  const [entry, setEntry] = useState(() => store.get(sql, params, options));
  const key = keyOf(sql, params, options);
  useEffect(() => {
    // React may call an updater twice: an entry that was moved already has this key, and stays
    setEntry((shown) => store.moved(shown, sql, params, options));
  }, [store, key]);
  useEffect(() => {
    store.retain(entry);
    return () => store.release(entry);
  }, [store, entry]);
  const state = useSyncExternalStore(entry.subscribe, entry.read, () => LOADING);
  if (options.suspense && typeof window !== "undefined") {
    use(entry.ready);
    if (state.status === "error") throw state.error;
  }
  return state;
}

/** The rows of a view or a table, by its name. */
export function useView(name, options) {
  const quoted = /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
  const answer = useAnswer(`SELECT * FROM ${quoted}`, {}, options);
  return { ...answer, rows: answer.result?.rows ?? [] };
}

/** A function that publishes events of a table as one transaction. */
export function usePublish() {
  const { client } = useStore();
  return useCallback((table, events, options) => client.publish(table, events, options), [client]);
}
