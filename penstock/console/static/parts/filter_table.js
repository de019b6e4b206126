/** Keys and values with a field that narrows them down. */

import { html, useId, useState } from "../html.js";
import { Table } from "./table.js";

/** `entries`: pairs of text; `first` is what the first of each is called. */
export function FilterTable({ caption, entries, empty, first = "Setting" }) {
  const [wanted, setWanted] = useState("");
  const field = useId();
  const find = wanted.trim().toLowerCase();
  const rows = entries.filter(([key, value]) => `${key}\n${value}`.toLowerCase().includes(find));
  return html`<div>
    ${
      entries.length > 8 &&
      html`<p class="filter"><label for=${field}>Filter</label>
      <input id=${field} type="search" value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
      <span class="quiet" role="status">${rows.length} of ${entries.length}</span></p>`
    }
    <${Table} caption=${caption} rows=${rows} id=${([key]) => key} empty=${find ? "Nothing matches." : empty}
      columns=${[
        { name: first, of: ([key]) => html`<code>${key}</code>`, by: ([key]) => key },
        { name: "Value", of: ([, value]) => html`<code class="wrap">${value}</code>`, wide: true },
      ]} />
  </div>`;
}
