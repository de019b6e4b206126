/** How a step spends its time: busy, backpressured, idle. */

import { percent } from "../format/numbers.js";
import { html } from "../html.js";

export function LoadBar({ busy, backpressured }) {
  if (busy === undefined && backpressured === undefined) return html`<span class="absent">no numbers</span>`;
  const [work, wait] = fitted(busy ?? 0, backpressured ?? 0);
  return html`<svg class="load" viewBox="0 0 100 6" preserveAspectRatio="none" role="img"
    aria-label="busy ${percent(busy)}, backpressured ${percent(backpressured)}">
    <rect class="bar idle" x="0" y="0" width="100" height="6" />
    <rect class="bar busy" x="0" y="0" width=${work} height="6" />
    <rect class="bar backpressured" x=${work} y="0" width=${wait} height="6" />
  </svg>`;
}

/** The worst subtasks of two kinds may be two subtasks: together they can be more than the whole. */
function fitted(busy, backpressured) {
  const whole = Math.max(1, busy + backpressured);
  return [(100 * busy) / whole, (100 * backpressured) / whole];
}
