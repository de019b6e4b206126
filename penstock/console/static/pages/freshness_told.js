/** How old what sources read and sinks show is, as the server says it. */

import { count } from "../format/numbers.js";
import { duration } from "../format/time.js";
import { html } from "../html.js";
import { Absent, Panel } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { link } from "../router.js";

const unknown = (value) => value === null || value === undefined;
const lag = (value) => (unknown(value) ? "no event time" : duration(value));

export function FreshnessTold({ id, told }) {
  if (!told) return null;
  const rows = [
    ...(told.sources ?? []).map((row) => ({ ...row, kind: "source" })),
    ...(told.sinks ?? []).map((row) => ({ ...row, kind: "sink" })),
  ];
  const columns = [
    {
      name: "Step",
      of: (row) => html`<a href=${link("job", id, "overview", row.vertex, "watermarks")}><bdi>${row.step}</bdi></a>`,
      wide: true,
    },
    { name: "Is a", of: (row) => row.kind },
    { name: "Event time behind", of: (row) => lag(row.lag_ms), by: (row) => row.lag_ms, right: true },
    { name: "Shows up to", of: (row) => visible(row), right: true },
    { name: "Waiting to be read", of: (row) => (unknown(row.pending_records) ? "–" : count(row.pending_records)), right: true },
    { name: "Idle subtasks", of: (row) => (row.kind === "source" ? count(row.idle_subtasks) : "–"), right: true },
  ];
  return html`<${Panel} title="Freshness">
    ${
      rows.length
        ? html`<${Table} caption="Freshness of sources and sinks" columns=${columns} rows=${rows}
          id=${(row) => `${row.kind} ${row.vertex} ${row.step}`} />`
        : html`<${Absent}>The job has no sources and sinks that say how old their records are.<//>`
    }
  <//>`;
}

/** What a sink that commits shows is as old as the last checkpoint; others show what they were given. */
function visible(row) {
  if (row.kind !== "sink") return "–";
  if (!row.commits) return "now";
  return unknown(row.visible_up_to_ms_ago) ? "nothing yet" : `${duration(row.visible_up_to_ms_ago)} ago`;
}
