/** What the test in a browser looks at: see tests/clients/test_client_react.py. */

import { Component, StrictMode, Suspense, useState } from "react";
import { createRoot } from "react-dom/client";
import { ProsemProvider, useAnswer, usePublish, useView } from "@prosem/react";

const { table, view } = Object.fromEntries(new URLSearchParams(location.search));
let renders = [];
globalThis.shown = () => renders;

function Lowest() {
  const [most, setMost] = useState(10);
  const { status, result, seq } = useAnswer(`SELECT MIN(y) FROM ${table} WHERE x < :most`, { most });
  renders.push(status === "live" ? result.value : status);
  return (
    <p>
      <b id="lowest" data-status={status} data-seq={seq ?? ""}>
        {result ? String(result.value) : "…"}
      </b>
      <button onClick={() => setMost(100)}>wider</button>
    </p>
  );
}

function Near() {
  const [pos, setPos] = useState(0);
  const sql = `SELECT k, x FROM ${table} WHERE x BETWEEN :pos - :reach AND :pos + :reach`;
  const { result } = useAnswer(sql, { pos, reach: 10 }, { monitor: { frequencyHz: 4, windowMs: 500 } });
  const drive = (to) => {
    setPos(to);
    if (to < 50) setTimeout(drive, 10, to + 1);
  };
  return (
    <p>
      <b id="near">{result ? result.rows.map(({ k }) => k).join() : "…"}</b>
      <button onClick={() => drive(1)}>drive</button>
    </p>
  );
}

const Count = ({ id }) => {
  const { result } = useAnswer(`SELECT COUNT(*) FROM ${table}`, {}, { suspense: true });
  return <b id={id}>{String(result.value)}</b>;
};

function Rows() {
  const { rows } = useView(view);
  return (
    <ol id="rows">
      {rows.map((row) => (
        <li key={String(row.x)}>{`${row.x}: ${row.n}`}</li>
      ))}
    </ol>
  );
}

function Add() {
  const publish = usePublish();
  return <button onClick={() => publish(table, [{ op: "insert", row: { k: 99, x: 5, y: -7 } }])}>add</button>;
}

class Boundary extends Component {
  state = { error: null };
  static getDerivedStateFromError(error) {
    return { error };
  }
  render() {
    return this.state.error ? <i id="error">{this.state.error.message}</i> : this.props.children;
  }
}
const Wrong = () => useAnswer("SELECT MEDIAN(y) FROM nowhere", {}, { suspense: true }).status;

function Page() {
  const [isOpen, setOpen] = useState(true);
  return (
    <>
      {isOpen ? <Lowest /> : null}
      <Suspense fallback={<i id="waiting">waiting</i>}>
        <Count id="count" />
        <Count id="again" />
      </Suspense>
      <Near />
      <Rows />
      <Add />
      <Boundary>
        <Suspense>
          <Wrong />
        </Suspense>
      </Boundary>
      <button onClick={() => setOpen(false)}>close</button>
    </>
  );
}

createRoot(document.getElementById("root")).render(
  <StrictMode>
    <ProsemProvider url={location.origin}>
      <Page />
    </ProsemProvider>
  </StrictMode>,
);
