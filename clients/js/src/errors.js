/**
 * Every error a user of the client can meet.
 *
 *     ProsemError          status, code, detail, errors [{at, detail}]: an answer that is not 2xx
 *     ├── ConnectionLost   0  connection-lost   no answer came, however often it was tried
 *     ├── Closed           0  closed            used after close(); an iteration just ends
 *     ├── NotMonitorable   0  not-monitorable   a query whose answer cannot be checked by the client
 *     └── OutOfStep        0  out-of-step       a change does not fit the answer before it
 */

const CODE_PREFIX = "urn:prosem:error:";

/** A refusal. `errors` points into the request: `{at: "/events/17/row/per", detail: …}`. */
export class ProsemError extends Error {
  constructor(status, code, detail, errors = []) {
    super(`${detail} (${code})`);
    this.name = new.target.name;
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.errors = errors;
    /** The line of a query with its fault marked, where the server shows it. */
    this.highlight = "";
  }

  /** The error of a problem document (RFC 9457); of anything else, one that shows it. */
  static ofProblem(problem, status = 500) {
    if (problem === null || typeof problem !== "object") {
      return new ProsemError(status, `http-${status}`, String(problem).slice(0, 500) || "the answer is empty");
    }
    const number = problem.status ?? status;
    const kind = String(problem.type ?? "");
    const code = kind.startsWith(CODE_PREFIX) ? kind.slice(CODE_PREFIX.length) : `http-${number}`;
    const errors = Array.isArray(problem.errors) ? problem.errors : [];
    const error = new ProsemError(number, code, String(problem.detail || problem.title || code), errors);
    error.highlight = String(problem.highlight ?? "");
    return error;
  }
}

/** No answer. Whether a call that may not be repeated was carried out is unknown. */
export class ConnectionLost extends ProsemError {
  constructor(detail) {
    super(0, "connection-lost", detail);
  }
}

/** Used after `close()`. An iteration ends instead of throwing it. */
export class Closed extends ProsemError {
  constructor(detail = "it was closed by its user") {
    super(0, "closed", detail);
  }
}

/** An update monitor was asked for, but the exact answer does not follow from the one of a wider range. */
export class NotMonitorable extends ProsemError {
  constructor(detail) {
    super(0, "not-monitorable", detail);
  }
}

/** A change that removes what is not there or adds what is: the answer can no longer be trusted. */
export class OutOfStep extends ProsemError {
  constructor(detail) {
    super(0, "out-of-step", detail);
  }
}
