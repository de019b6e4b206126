/** Where event time is in each subtask of a step. */

import { exact } from "../format/numbers.js";
import { duration, watermarkText } from "../format/time.js";
import { html, useMemo } from "../html.js";
import { Absent, Moment } from "../parts/bits.js";
import { Chart } from "../parts/chart.js";
import { Table } from "../parts/table.js";

export function WatermarksTab({ look, vertex, feed }) {
  const data = useMemo(() => feed.series.columns([`${vertex.id} lag`]), [look]);
  if (!vertex.watermarks.length) return html`<${Absent}>The server has no watermarks of this step.<//>`;
  const lag = (row) => (row.value === null || row.value === Infinity ? undefined : look.now - row.value);
  const columns = [
    { name: "#", of: (row) => exact(row.subtask), by: (row) => row.subtask, right: true },
    { name: "Watermark", of: (row) => watermarkText(row.value), by: (row) => row.value },
    { name: "Behind", of: (row) => duration(lag(row)), by: lag, right: true },
    {
      name: "Unmoved since",
      of: (row) => html`<${Moment} at=${feed.still.since(vertex.id, row.subtask)} />`,
      by: (row) => feed.still.since(vertex.id, row.subtask),
    },
  ];
  return html`<${Chart} label="How far the step's lowest watermark is behind" as=${duration} data=${data}
      lines=${[{ name: "lowest watermark behind" }]} />
    <${Table} caption="Watermarks of the step's subtasks" columns=${columns} rows=${vertex.watermarks}
      id=${(row) => row.subtask} first=${{ name: "Watermark", down: false }} />`;
}
