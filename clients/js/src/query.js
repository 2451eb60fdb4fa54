/**
 * The little a client has to know of its query: the key of its rows and the order of its values. Only the
 * words around FROM are read here, never the conditions; the server is the one that understands the query.
 */

const TOKEN =
  /(?<skip>\s+|--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*')|(?<quoted>"(?:[^"]|"")*")|(?<word>[\p{L}\p{N}_]+)|./gsu;

/** `{table, distinct}`: the one table of a query (null: several, or none) and the column of its DISTINCT. */
export function outline(sql) {
  const names = [];
  const bare = []; // keywords are never quoted
  for (const { 0: text, groups } of sql.matchAll(TOKEN)) {
    if (groups.skip !== undefined) continue;
    const isQuoted = groups.quoted !== undefined;
    names.push(isQuoted ? text.slice(1, -1).replaceAll('""', '"') : text.toLowerCase());
    bare.push(isQuoted ? "" : text.toLowerCase());
  }
  const from = bare.indexOf("from");
  if (from < 0 || bare.includes("join")) return { table: null, distinct: null };
  const distinct = bare.slice(0, from).indexOf("distinct");
  return { table: qualified(names, from + 1), distinct: distinct < 0 ? null : qualified(names, distinct + 1) };
}

/** How the answer of a query is folded, by the definition of its table. */
export function shapeOf({ distinct }, definition) {
  const column = definition.columns.find(({ name }) => name === distinct);
  return { key: definition.primary_key, type: column?.type };
}

/** The last part of the dotted name that begins at `start`. */
function qualified(names, start) {
  while (names[start + 1] === ".") start += 2;
  return names[start] ?? null;
}
