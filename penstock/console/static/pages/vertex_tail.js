/** Some of the records that come to a step, or leave a source, as they flow; where the job's settings allow it. */

import { clock } from "../format/time.js";
import { html } from "../html.js";
import { Absent, Shown } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { getJson, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";

const RARELY = 10;

export function TailTab({ id, vertex }) {
  const feed = usePoll(
    (signal) => getJson(path("jobs", id, "vertices", vertex.id, "penstock", "tail"), signal),
    [id, vertex.id],
    (data) => (data?.enabled ? 1 : RARELY),
  );
  return html`<${Shown} feed=${feed} missing="This server shows no records.">
    ${(data) => (data.enabled ? html`<${Records} data=${data} />` : html`<${Absent}><bdi>${data.note}</bdi><//>`)}
  <//>`;
}

function Records({ data }) {
  const columns = [
    { name: "Seen", of: (row) => clock(row.at) },
    { name: "Slot", of: (row) => String(row.slot), right: true },
    { name: "Record", of: (row) => html`<code class="wrap"><bdi>${row.text}</bdi></code>`, wide: true },
  ];
  const rows = data.records.map((row, at) => ({ ...row, number: at })).reverse();
  const which = data.of === "output" ? "leave this source" : "come to this step";
  return html`<p class="quiet">A sample of the records that ${which}, newest first; fields that are secret are left out.</p>
    <${Table} caption="Records" columns=${columns} rows=${rows} id=${(row) => `${row.at} ${row.slot} ${row.number}`}
      empty="No record has come by since this was opened." />`;
}
