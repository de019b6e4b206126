/** How each subtask of a step spends its time. */

import { exact, percent } from "../format/numbers.js";
import { html, useMemo } from "../html.js";
import { Moment, Shown } from "../parts/bits.js";
import { Chart } from "../parts/chart.js";
import { LoadBar } from "../parts/load_bar.js";
import { Table } from "../parts/table.js";
import { getJson, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";

const LINES = [
  { name: "busy", colour: "busy" },
  { name: "backpressured", colour: "backpressured" },
  { name: "idle", colour: "line-3" },
];

const COLUMNS = [
  { name: "#", of: (row) => exact(row.subtask), by: (row) => row.subtask, right: true },
  { name: "Load", of: (row) => html`<${LoadBar} busy=${row.busyRatio} backpressured=${row.ratio} />` },
  { name: "Busy", of: (row) => percent(row.busyRatio), by: (row) => row.busyRatio, right: true },
  { name: "Backpressured", of: (row) => percent(row.ratio), by: (row) => row.ratio, right: true },
  { name: "Idle", of: (row) => percent(row.idleRatio), by: (row) => row.idleRatio, right: true },
  { name: "Level", of: (row) => String(row["backpressure-level"] ?? row.backpressureLevel ?? "–") },
];

export function LoadTab({ id, look, vertex, feed }) {
  const load = usePoll(
    (signal) => getJson(path("jobs", id, "vertices", vertex.id, "backpressure"), signal),
    [id, vertex.id],
  );
  const data = useMemo(
    () => feed.series.columns(["busy", "backpressured", "idle"].map((name) => `${vertex.id} ${name}`)),
    [look],
  );
  return html`<${Chart} label="How the step spends its time" as=${percent} data=${data} lines=${LINES} />
    <${Shown} feed=${load} missing="The server measures no backpressure of this step.">
      ${(found) =>
        Array.isArray(found.subtasks) && found.subtasks.length
          ? html`<p class="quiet">Measured <${Moment} at=${found["end-timestamp"]} />.</p>
              <${Table} caption="Backpressure of the step's subtasks" columns=${COLUMNS} rows=${found.subtasks}
                id=${(row) => row.subtask} />`
          : html`<p class="absent">Being measured.</p>`}
    <//>`;
}
