/** The slowest subtasks of all steps: those with the least time to spare. */

import { exact, percent, rate } from "../format/numbers.js";
import { html, useId, useRef, useState } from "../html.js";
import { Absent, Panel, Shown } from "../parts/bits.js";
import { LoadBar } from "../parts/load_bar.js";
import { Table } from "../parts/table.js";
import { getJson, ifThere, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";
import { link } from "../router.js";

export function SlowSubtasks({ id, look }) {
  const [most, setMost] = useState(5);
  const before = useRef(null);
  const field = useId();
  const ids = look.vertices.map((vertex) => vertex.id);
  const feed = usePoll((signal) => load(id, ids, signal, before), [id, ids.join(" ")]);
  const names = new Map(look.vertices.map((vertex) => [vertex.id, vertex.name]));
  const columns = [
    {
      name: "Step",
      of: (row) =>
        html`<a href=${link("job", id, "overview", row.vertex, "backpressure")}><bdi>${names.get(row.vertex)}</bdi></a>`,
      wide: true,
    },
    { name: "Subtask", of: (row) => exact(row.subtask), right: true },
    { name: "Load", of: (row) => html`<${LoadBar} busy=${row.busy} backpressured=${row.backpressured} />` },
    { name: "Busy", of: (row) => percent(row.busy), right: true },
    { name: "Records", of: (row) => rate(row.rate), right: true },
    { name: "Host", of: (row) => html`<bdi>${row.host ?? "–"}</bdi>` },
  ];
  const aside = html`<label for=${field} class="quiet">Top
    <select id=${field} value=${most} onChange=${(event) => setMost(Number(event.target.value))}>
      ${[5, 10, 20].map((number) => html`<option key=${number} value=${number}>${number}</option>`)}
    </select></label>`;
  return html`<${Panel} title="Slowest subtasks" aside=${aside}>
    <${Shown} feed=${feed} missing="The server measures no subtasks.">
      ${(rows) =>
        rows.length
          ? html`<${Table} caption="Slowest subtasks" columns=${columns} rows=${rows.slice(0, most)} id=${(row) => `${row.vertex} ${row.subtask}`} />`
          : html`<${Absent}>The server measures no subtasks.<//>`}
    <//>
  <//>`;
}

async function load(id, ids, signal, before) {
  const found = await Promise.all(ids.map((vertex) => ofVertex(id, vertex, signal)));
  const rows = found.flat();
  const now = Date.now();
  for (const row of rows) {
    const earlier = before.current?.rows.find((one) => one.vertex === row.vertex && one.subtask === row.subtask);
    const seconds = (now - (before.current?.at ?? now)) / 1000;
    if (earlier && seconds > 0) row.rate = Math.max(0, (row.records - earlier.records) / seconds);
  }
  before.current = { at: now, rows };
  return rows.sort((one, other) => (other.busy ?? -1) - (one.busy ?? -1));
}

async function ofVertex(id, vertex, signal) {
  const place = ["jobs", id, "vertices", vertex];
  const [load, subtasks] = await Promise.all([
    ifThere(getJson(path(...place, "backpressure"), signal)),
    ifThere(getJson(path(...place), signal)),
  ]);
  const details = new Map((subtasks?.subtasks ?? []).map((row) => [row.subtask, row]));
  return (load?.subtasks ?? []).map((row) => ({
    vertex,
    subtask: row.subtask,
    busy: row.busyRatio,
    backpressured: row.ratio,
    host: details.get(row.subtask)?.endpoint,
    records: counted(details.get(row.subtask)?.metrics),
  }));
}

/** What it received; of a source, what it sent. */
function counted(metrics) {
  return metrics?.["read-records"] || metrics?.["write-records"];
}
