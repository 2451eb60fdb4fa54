/** A query as words, names, parameters, numbers and signs, each with its place in the text. */

const TOKEN = new RegExp(
  [
    String.raw`(?<skip>\s+|--[^\n]*|/\*[^]*?\*/)`,
    String.raw`(?<text>'(?:[^']|'')*')`,
    String.raw`(?<quoted>"(?:[^"]|"")*")`,
    String.raw`(?<cast>::)`,
    String.raw`:(?<parameter>[\p{L}\p{N}_]+)`,
    String.raw`(?<word>[\p{L}_][\p{L}\p{N}_]*)`,
    String.raw`(?<number>[0-9]+(?:\.[0-9]+)?(?![\p{L}\p{N}_.]))`,
    String.raw`(?<sign><=|>=|<>|!=|[^])`,
  ].join("|"),
  "gu",
);

/** `{kind, text, start, stop}` of each, without spaces, comments and the semicolon; bare words are in lower case. */
export function tokensOf(sql) {
  const tokens = [];
  for (const match of sql.matchAll(TOKEN)) {
    const [kind, found] = Object.entries(match.groups).find(([, text]) => text !== undefined);
    if (kind === "skip" || found === ";") continue;
    let text = found;
    if (kind === "word") text = found.toLowerCase();
    if (kind === "quoted") text = found.slice(1, -1).replaceAll('""', '"');
    tokens.push({ kind, text, start: match.index, stop: match.index + match[0].length });
  }
  return tokens;
}

export const isSign = (token, text) => token?.kind === "sign" && token.text === text;
export const isWord = (token, text) => token?.kind === "word" && token.text === text;

/** Bare words, which alone may be keywords; an empty text for any other token. */
export const wordsOf = (tokens) => tokens.map(({ kind, text }) => (kind === "word" ? text : ""));
