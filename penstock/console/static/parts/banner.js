/** What the whole page must know: no connection, no sign-in. It goes away by itself. */

import { clock } from "../format/time.js";
import { html, useEffect, useState } from "../html.js";
import { connection, onConnection } from "../rest/connection.js";

export function Banner() {
  const [, redraw] = useState(0);
  useEffect(() => onConnection(() => redraw((times) => times + 1)), []);
  const { lostSince, signedOut, reason } = connection();
  return html`<div role="alert" class="banner-place">
    ${
      lostSince !== null &&
      html`<p class="banner">${reason} What is shown is from before ${clock(lostSince)}; the page keeps trying.</p>`
    }
    ${
      lostSince === null &&
      signedOut &&
      html`<p class="banner">
      Not signed in. Run <code>penstock ui</code> on the driver's machine: it opens this page with the right to see it.
    </p>`
    }
  </div>`;
}
