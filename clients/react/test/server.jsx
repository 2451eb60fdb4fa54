/** Rendered on a server: nothing is opened, and the page says that it waits. */

import { renderToString } from "react-dom/server";
import { ProsemProvider, useAnswer } from "@prosem/react";

const Lowest = () => <b>{useAnswer("SELECT MIN(y) FROM t", {}, { suspense: true }).status}</b>;
console.log(
  renderToString(
    <ProsemProvider url="http://127.0.0.1:9">
      <Lowest />
    </ProsemProvider>,
  ),
);
