/** The page: every number on it is the answer of a query, and stays current. */

import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { ProsemProvider, useAnswer, usePublish } from "@prosem/react";

const COUNTRIES = ["AT", "BR", "CA", "DE", "JP", "KE", "NZ"];
const STATES = ["new", "packed", "shipped"];
const money = (text) => Number(text ?? 0).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** Top-k. Another country is another parameter: the same subscription moves. */
function Leaders() {
  const [country, setCountry] = useState("");
  const where = country ? " WHERE country = :country" : "";
  const { result, change, error } = useAnswer(
    `SELECT name, country, points FROM players${where} ORDER BY points DESC LIMIT 10`,
    country ? { country } : {},
  );
  const moved = new Set([...(change?.add ?? []), ...(change?.update ?? [])].map((row) => row.name));
  return (
    <section>
      <h1>Leaderboard</h1>
      <label>
        Country{" "}
        <select value={country} onChange={(event) => setCountry(event.target.value)}>
          <option value="">all</option>
          {COUNTRIES.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <Problem error={error} />
      <table id="leaders">
        <thead>
          <tr>
            <th>#</th>
            <th>player</th>
            <th>country</th>
            <th className="number">points</th>
          </tr>
        </thead>
        <tbody>
          {result?.rows.map((row, at) => (
            <tr key={`${row.name} ${row.points}`} className={moved.has(row.name) ? "moved" : ""}>
              <td>{at + 1}</td>
              <td>{row.name}</td>
              <td>{row.country}</td>
              <td className="number">{row.points.toLocaleString("en")}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <Countries />
    </section>
  );
}

/** Groups: only those that changed are sent. */
function Countries() {
  const { result } = useAnswer("SELECT country, COUNT(*) AS players, SUM(points) AS points FROM players GROUP BY country");
  const groups = [...(result?.groups ?? [])].sort((a, b) => b.points - a.points);
  const most = Math.max(1, ...groups.map((group) => Number(group.points)));
  return (
    <>
      <h2>Points by country</h2>
      <table id="countries">
        <tbody>
          {groups.map(({ country, players, points }) => (
            <tr key={country}>
              <td>{country}</td>
              <td className="number">{String(players)} players</td>
              <td style={{ width: "45%" }}>
                <div className="bar" style={{ width: `${(100 * Number(points)) / most}%` }} />
              </td>
              <td className="number">{Number(points).toLocaleString("en")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

/** Groups of a view over a join: they change with lines, with prices and with the status of orders. */
function Orders() {
  const { result, change, error } = useAnswer(
    "SELECT status, COUNT(*) AS lines, SUM(worth) AS worth FROM order_lines GROUP BY status",
    {},
    { per: "transaction" },
  );
  const groups = new Map((result?.groups ?? []).map((group) => [group.status, group]));
  const moved = new Set([...(change?.add ?? []), ...(change?.update ?? [])].map((group) => group.status));
  return (
    <section>
      <h1>Order board</h1>
      <Problem error={error} />
      <table id="states">
        <thead>
          <tr>
            <th>status</th>
            <th className="number">lines</th>
            <th className="number">worth, €</th>
          </tr>
        </thead>
        <tbody>
          {STATES.map((status) => (
            <tr key={`${status} ${groups.get(status)?.worth}`} className={moved.has(status) ? "moved" : ""}>
              <td>{status}</td>
              <td className="number">{String(groups.get(status)?.lines ?? 0)}</td>
              <td className="number">{money(groups.get(status)?.worth)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <Largest />
    </section>
  );
}

/** Top-k over the view, and a button that publishes. */
function Largest() {
  const { result } = useAnswer(
    "SELECT no, order_no, line, product, customer, worth FROM order_lines WHERE status = :status ORDER BY worth DESC LIMIT 6",
    { status: "new" },
  );
  const publish = usePublish();
  const pack = (no) => publish("orders", [{ op: "update", key: { no }, set: { status: "packed" } }]);
  return (
    <>
      <h2>Largest new lines</h2>
      <table id="largest">
        <tbody>
          {result?.rows.map(({ no, line, product, customer, worth }) => (
            <tr key={`${no}-${line}`}>
              <td>{`${no}/${line}`}</td>
              <td>{product}</td>
              <td>{customer}</td>
              <td className="number">{money(worth)}</td>
              <td>
                <button onClick={() => pack(no)} aria-label={`Pack order ${no}`}>
                  Pack
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

const Problem = ({ error }) => (error ? <p className="problem">{error.message}</p> : null);

const { server } = await (await fetch("config.json")).json();
createRoot(document.getElementById("root")).render(
  <StrictMode>
    <ProsemProvider url={server}>
      <main>
        <Leaders />
        <Orders />
      </main>
    </ProsemProvider>
  </StrictMode>,
);
