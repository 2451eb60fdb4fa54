/** CSV as RFC 4180 has it, and its cells as values of columns. */

/** The records of a text: lists of cells. Quotes may hold commas, line ends and doubled quotes. */
export function readCsv(text) {
  const records = [];
  let record = [];
  let cell = "";
  let isQuoted = false;
  let wasQuoted = false;
  const separator = (text.split("\n", 1)[0].match(/[,;\t]/) ?? [","])[0];
  const endCell = () => {
    record.push(cell === "" && !wasQuoted ? null : cell);
    [cell, wasQuoted] = ["", false];
  };
  const endRecord = () => {
    endCell();
    if (record.length > 1 || record[0] !== null) records.push(record);
    record = [];
  };
  for (let at = text.charCodeAt(0) === 0xfeff ? 1 : 0; at < text.length; at += 1) {
    const char = text[at];
    if (isQuoted) {
      if (char !== '"') cell += char;
      else if (text[at + 1] === '"') [cell, at] = [`${cell}"`, at + 1];
      else isQuoted = false;
    } else if (char === '"' && cell === "") [isQuoted, wasQuoted] = [true, true];
    else if (char === separator) endCell();
    else if (char === "\n") endRecord();
    else if (char !== "\r") cell += char;
  }
  if (isQuoted) throw new Error("the file ends within quotes");
  if (cell !== "" || record.length || wasQuoted) endRecord();
  return records;
}

/** A cell as a value of this column's type; the server has the last word on what is valid. */
export function readCell(cell, type) {
  if (cell === null || cell === "") return type === "text" ? cell : null;
  if (type === "boolean")
    return { true: true, t: true, 1: true, false: false, f: false, 0: false }[cell.trim().toLowerCase()] ?? cell;
  if (type === "integer" || type === "bigint") return /^\s*-?\d+\s*$/.test(cell) ? integer(cell.trim()) : cell;
  if (type === "double precision") return cell.trim() !== "" && Number.isFinite(Number(cell)) ? Number(cell) : cell;
  if (type === "jsonb") {
    try {
      return JSON.parse(cell);
    } catch {
      return cell;
    }
  }
  return type === "text" ? cell : cell.trim();
}

function integer(digits) {
  const number = Number(digits);
  return Number.isSafeInteger(number) ? number : BigInt(digits);
}

/** Upserts of the records of a file whose first line names columns of the table. */
export function eventsOf(text, table) {
  const [names, ...records] = readCsv(text);
  if (!names) throw new Error("the file is empty; its first line names the columns");
  const types = new Map(table.columns.map(({ name, type }) => [name, type]));
  const columns = names.map((name) => (name ?? "").trim());
  const unknown = columns.filter((name) => !types.has(name));
  if (unknown.length)
    throw new Error(`${table.name} has no column ${unknown.join(", ")}; it has ${[...types.keys()].join(", ")}`);
  const missing = table.primary_key.filter((name) => !columns.includes(name));
  if (missing.length) throw new Error(`the key ${missing.join(", ")} is not among the columns of the file`);
  return records.map((record, at) => {
    if (record.length !== columns.length)
      throw new Error(`record ${at + 2} has ${record.length} cells, the first line ${columns.length}`);
    return {
      op: "upsert",
      row: Object.fromEntries(columns.map((name, to) => [name, readCell(record[to], types.get(name))])),
    };
  });
}
