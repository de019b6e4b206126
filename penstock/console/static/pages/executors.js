/** The executors that hold the job's slots. (Flink: TaskManagers.) */

import { bytes, exact } from "../format/numbers.js";
import { duration } from "../format/time.js";
import { html } from "../html.js";
import { Fact, Panel, Shown } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { Tabs } from "../parts/tabs.js";
import { getJson, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";
import { link } from "../router.js";
import { LogsTab, MetricsTable, OutputTab, ThreadsTab } from "./process.js";

const COLUMNS = [
  {
    name: "Executor",
    of: (row) => html`<a href=${link("executors", row.id)}><bdi>${row.id}</bdi></a>`,
    by: (row) => row.id,
    wide: true,
  },
  { name: "Address", of: (row) => html`<bdi>${row.path || "–"}</bdi>` },
  { name: "Heard from", of: (row) => heard(row.timeSinceLastHeartbeat), by: (row) => row.timeSinceLastHeartbeat },
  { name: "Slots", of: (row) => exact(row.slotsNumber), by: (row) => row.slotsNumber, right: true },
  { name: "Free slots", of: (row) => exact(row.freeSlots), by: (row) => row.freeSlots, right: true },
  { name: "Tasks", of: (row) => exact(row.assignedTasks), by: (row) => row.assignedTasks, right: true },
  { name: "Cores", of: (row) => exact(row.hardware?.cpuCores), right: true },
  { name: "Memory", of: (row) => bytes(row.hardware?.physicalMemory || undefined), right: true },
];

export function ExecutorsPage() {
  const feed = usePoll((signal) => getJson("./taskmanagers", signal), []);
  return html`<h1>Executors</h1>
    <${Panel} title="With slots of the job">
      <${Shown} feed=${feed} missing="The server lists no executors.">
        ${(data) => html`<${Table} caption="Executors" columns=${COLUMNS} rows=${data.taskmanagers ?? []}
          id=${(row) => row.id} empty="No executor has a slot of this job." />`}
      <//>
    <//>`;
}

/** Flink sends the moment of the last heartbeat under a name that says "time since": both are understood. */
function heard(value) {
  if (!(value >= 0)) return "–";
  return `${duration(value > 1e12 ? Math.max(0, Date.now() - value) : value)} ago`;
}

const TABS = [
  ["summary", "Summary", Summary],
  ["metrics", "Metrics", MetricsTable],
  ["logs", "Logs", LogsTab],
  ["stdout", "Output", OutputTab],
  ["threads", "Threads", ThreadsTab],
];

export function ExecutorPage({ id, tab = "summary" }) {
  const [, name, Tab] = TABS.find(([page]) => page === tab) ?? TABS[0];
  return html`<h1>Executor <bdi>${id}</bdi></h1>
    <p><a href=${link("executors")}>All executors</a></p>
    <${Tabs} label="About the executor" tabs=${TABS.map(([page, title]) => ({ name: title, href: link("executors", id, page), open: page === tab }))} />
    <${Panel} title=${name} key=${tab}><${Tab} place=${["taskmanagers", id]} id=${id} /><//>`;
}

function Summary({ id }) {
  const feed = usePoll((signal) => getJson(path("taskmanagers", id), signal), [id]);
  return html`<${Shown} feed=${feed} missing="The server knows no such executor; it may be gone.">
    ${(data) => html`<dl class="facts">
      <${Fact} name="Address"><bdi class="wrap">${data.path}</bdi><//>
      <${Fact} name="Heard from">${heard(data.timeSinceLastHeartbeat)}<//>
      <${Fact} name="Slots">${exact(data.slotsNumber)}<//>
      <${Fact} name="Tasks">${exact(data.assignedTasks)}<//>
      <${Fact} name="Cores">${exact(data.hardware?.cpuCores)}<//>
      <${Fact} name="Memory">${bytes(data.hardware?.physicalMemory)}<//>
      <${Fact} name="Free memory">${bytes(data.hardware?.freeMemory)}<//>
      <${Fact} name="Python uses">${bytes(data.metrics?.heapUsed)}<//>
    </dl>`}
  <//>`;
}
