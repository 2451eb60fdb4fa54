/**
 * Which conditions of a query the client can check by itself.
 *
 * The server is the one that understands queries. Read here is only what the update monitor needs: the columns
 * selected, and the conjuncts of WHERE that compare a column with a parameter or with arithmetic over parameters:
 * `x >= :lo`, `:pos - :reach < x`, `x BETWEEN :lo AND :hi`, `x = :x`. A condition that is read in no such way is the
 * server's alone; what stands under OR or NOT is never read.
 */

import { NotMonitorable } from "./errors.js";
import { outline } from "./query.js";
import { parametersOf, readTerm } from "./terms.js";
import { isSign, isWord, tokensOf, wordsOf } from "./tokens.js";

const TURNED = { "<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=" };
const PARTIAL = ["fetch", "group", "having", "limit", "offset", "order"]; // an answer that is not all rows of a range

/**
 * What can be checked of a query: `{sql, table, selected, comparisons, uses}`; NotMonitorable if its answer does not
 * follow from a wider range's. `selected` is null for all columns. `uses` counts each parameter. A comparison is
 * `{column, sign, term, start, stop, source}`: the text from `start` to `stop` is the term, or all of an equality.
 */
export function condition(sql) {
  const tokens = tokensOf(sql);
  const words = wordsOf(tokens);
  const { table } = outline(sql);
  const from = words.indexOf("from");
  if (table === null || from < 0) {
    throw new NotMonitorable("the update monitor needs a query over one table; a join cannot be checked here");
  }
  const selected = selectedOf(tokens.slice(1, from));
  const partial = PARTIAL.find((word) => words.includes(word, from));
  if (partial) {
    throw new NotMonitorable(
      `the update monitor needs all rows of a range: what ${partial.toUpperCase()} leaves of a range does not follow ` +
        "from a wider one",
    );
  }
  const where = words.includes("where") ? words.indexOf("where") + 1 : tokens.length;
  const uses = new Map();
  for (const { kind, text } of tokens) if (kind === "parameter") uses.set(text, (uses.get(text) ?? 0) + 1);
  const comparisons = conjuncts(tokens.slice(where)).flatMap((part) => comparisonsOf(sql, part));
  if (!comparisons.length) {
    throw new NotMonitorable(
      "the update monitor needs a column compared with parameters, joined by AND: x BETWEEN :lo AND :hi, x >= :lo, " +
        "x < :pos + :reach, x = :x (not under OR or NOT)",
    );
  }
  return { sql, table, selected, comparisons, uses };
}

/** The columns between SELECT and FROM, null for `*`. */
function selectedOf(tokens) {
  if (tokens.length === 1 && isSign(tokens[0], "*")) return null;
  if (tokens.some((token) => isSign(token, "(") || isWord(token, "distinct"))) {
    throw new NotMonitorable(
      "the update monitor needs SELECT * or columns: an aggregate or the distinct values of a range do not follow " +
        "from those of a wider one",
    );
  }
  const items = [[]];
  for (const token of tokens) {
    if (isSign(token, ",")) items.push([]);
    else items.at(-1).push(token);
  }
  if (items.length === 1) {
    throw new NotMonitorable("the update monitor needs rows: one column alone is a value notification");
  }
  return items.filter((item) => item.length).map((item) => item.at(-1).text);
}

const deeper = (token) => Number(isSign(token, "(")) - Number(isSign(token, ")"));

/** The parts that AND joins, without the parentheses around them; none if OR joins any. */
function conjuncts(tokens) {
  const parts = [[]];
  let depth = 0;
  let betweens = 0;
  for (const token of tokens) {
    depth += deeper(token);
    const word = token.kind === "word" && !depth ? token.text : "";
    if (word === "or") return [];
    if (word === "between") betweens += 1;
    if (word === "and" && !betweens) {
      parts.push([]);
      continue;
    }
    if (word === "and") betweens -= 1;
    parts.at(-1).push(token);
  }
  return parts.flatMap((part) => (isWrapped(part) ? conjuncts(part.slice(1, -1)) : [part]));
}

/** Whether the first parenthesis closes at the end. */
function isWrapped(part) {
  if (!isSign(part[0], "(")) return false;
  let depth = 0;
  const closes = part.findIndex((token) => (depth += deeper(token)) === 0);
  return closes === part.length - 1;
}

function comparisonsOf(sql, conjunct) {
  const words = wordsOf(conjunct);
  const [start, middle] = [words.indexOf("between"), words.indexOf("and")];
  if (start >= 0 && middle >= 0) {
    if (words[start + 1].endsWith("symmetric")) return [];
    const column = conjunct.slice(0, start);
    return [
      ...comparison(sql, column, ">=", conjunct.slice(start + 1, middle)),
      ...comparison(sql, column, "<=", conjunct.slice(middle + 1)),
    ];
  }
  const at = conjunct.findIndex(({ kind, text }) => kind === "sign" && text in TURNED);
  if (at < 0) return [];
  const [left, right, sign] = [conjunct.slice(0, at), conjunct.slice(at + 1), conjunct[at].text];
  return columnOf(left) === null ? comparison(sql, right, TURNED[sign], left) : comparison(sql, left, sign, right);
}

function comparison(sql, left, sign, right) {
  const [column, term] = [columnOf(left), readTerm(right)];
  if (column === null || term === null || !parametersOf(term).length) return [];
  const replaced = sign === "=" ? [...left, ...right] : right;
  const start = Math.min(...replaced.map((token) => token.start));
  const stop = Math.max(...replaced.map((token) => token.stop));
  return [{ column, sign, term, start, stop, source: sql.slice(left[0].start, left.at(-1).stop) }];
}

/** The column of `x` or `t.x`. */
function columnOf(tokens) {
  const isName = ({ kind }) => kind === "word" || kind === "quoted";
  const isQualified = tokens.length === 3 && isName(tokens[0]) && isSign(tokens[1], ".") && isName(tokens[2]);
  return isQualified || (tokens.length === 1 && isName(tokens[0])) ? tokens.at(-1).text : null;
}
