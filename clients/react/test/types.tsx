/** Compiled, not run. */

import { ProsemProvider, useAnswer, usePublish, useView } from "@prosem/react";

type Stock = { symbol: string; price: string };

export function Prices() {
  const { result, status } = useAnswer<Stock>("SELECT symbol, price FROM stocks WHERE price > :least", { least: 5 });
  const { rows } = useView<Stock>("dear");
  const publish = usePublish();
  const symbols: string[] = [...(result?.rows ?? []), ...rows].map((row) => row.symbol);
  // @ts-expect-error there is no such column
  rows[0]?.colour;
  // @ts-expect-error an operation that does not exist
  void publish("stocks", [{ op: "replace", row: {} }]);
  return (
    <ProsemProvider url="http://127.0.0.1:8080">
      {status} {symbols.join()}
    </ProsemProvider>
  );
}
