/** Rows of bars over one span of time; the same facts are in a table beside it, or in each bar's title. */

import { duration } from "../format/time.js";
import { html } from "../html.js";

/** `rows`: `{key, name, bars: [{from, to, kind, what}]}` in ms of the same clock; `kinds` are the legend. */
export function Gantt({ label, rows, kinds, from, to }) {
  const span = Math.max(1, to - from);
  return html`<div class="gantt" role="group" aria-label=${label}>
    <ul class="kinds" aria-label="Colours">
      ${kinds.map(
        ({ kind, name }) => html`<li key=${kind}><span class="swatch ${kind}" aria-hidden="true"></span>${name}</li>`,
      )}
    </ul>
    <div class="scale" aria-hidden="true"><span>0</span><span>${duration(span / 2)}</span><span>${duration(span)}</span></div>
    <ol class="rows">
      ${rows.map((row) => html`<${Row} key=${row.key} ...${{ row, from, span }} />`)}
    </ol>
  </div>`;
}

function Row({ row, from, span }) {
  const said = row.bars.map((bar) => `${bar.what} ${duration(bar.to - bar.from)}`).join(", ");
  return html`<li>
    <span class="row-name" title=${row.name}><bdi>${row.name}</bdi></span>
    <svg class="track" role="img" aria-label="${row.name}: ${said || "nothing"}" preserveAspectRatio="none" viewBox="0 0 1000 10">
      ${row.bars.map((bar) => {
        const x = (1000 * (bar.from - from)) / span;
        const width = Math.max(1.5, (1000 * (bar.to - bar.from)) / span);
        return html`<rect class="bar ${bar.kind}" x=${x} y="0" width=${width} height="10">
          <title>${bar.what}: ${duration(bar.to - bar.from)}</title>
        </rect>`;
      })}
    </svg>
    <span class="row-total number">${duration(total(row.bars))}</span>
  </li>`;
}

function total(bars) {
  if (!bars.length) return undefined;
  return Math.max(...bars.map((bar) => bar.to)) - Math.min(...bars.map((bar) => bar.from));
}
