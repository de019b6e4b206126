/** The subtasks of a step: where they run, what they did. */

import { bytes, count, exact, rate } from "../format/numbers.js";
import { duration } from "../format/time.js";
import { html, useMemo } from "../html.js";
import { Badge, Moment, Shown } from "../parts/bits.js";
import { Chart } from "../parts/chart.js";
import { Table } from "../parts/table.js";
import { getJson, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";
import { link } from "../router.js";

export function SubtasksTab({ id, look, vertex, feed: job }) {
  const data = useMemo(() => job.series.columns([`${vertex.id} in`, `${vertex.id} out`]), [look]);
  const feed = usePoll((signal) => getJson(path("jobs", id, "vertices", vertex.id), signal), [id, vertex.id]);
  return html`<${Chart} label="Records a second of the step" as=${rate} data=${data}
      lines=${[{ name: "received" }, { name: "sent" }]} />
    <${Shown} feed=${feed} missing="The server has no subtasks of this step.">
    ${(data) => html`<${Table} caption="Subtasks of the step" columns=${COLUMNS} rows=${data.subtasks ?? []}
      id=${(row) => row.subtask} />`}
  <//>`;
}

const of = (name) => (row) => row.metrics?.[name];

const COLUMNS = [
  { name: "#", of: (row) => exact(row.subtask), by: (row) => row.subtask, right: true },
  { name: "State", of: (row) => html`<${Badge} state=${row.status} />`, by: (row) => row.status },
  { name: "Attempt", of: (row) => exact(row.attempt), by: (row) => row.attempt, right: true },
  { name: "Received", of: (row) => count(of("read-records")(row)), by: of("read-records"), right: true },
  { name: "Sent", of: (row) => count(of("write-records")(row)), by: of("write-records"), right: true },
  { name: "Bytes in", of: (row) => bytes(of("read-bytes")(row)), by: of("read-bytes"), right: true },
  { name: "Bytes out", of: (row) => bytes(of("write-bytes")(row)), by: of("write-bytes"), right: true },
  {
    name: "Busy in all",
    of: (row) => duration(of("accumulated-busy-time")(row)),
    by: (row) => Number(of("accumulated-busy-time")(row)),
    right: true,
  },
  {
    name: "Backpr. in all",
    of: (row) => duration(of("accumulated-backpressured-time")(row)),
    by: of("accumulated-backpressured-time"),
    right: true,
  },
  { name: "Started", of: (row) => html`<${Moment} at=${row.start_time ?? row["start-time"]} />` },
  {
    name: "Executor",
    of: (row) =>
      html`<a href=${link("executors", row["taskmanager-id"])}><bdi>${row.endpoint ?? row["taskmanager-id"]}</bdi></a>`,
    by: (row) => row.endpoint,
  },
];
