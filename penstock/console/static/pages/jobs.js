/** All jobs that this server knows: running ones first. */

import { exact } from "../format/numbers.js";
import { duration } from "../format/time.js";
import { html } from "../html.js";
import { over } from "../model/states.js";
import { Badge, Fact, Moment, Panel, Shown } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { getJson } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";
import { link } from "../router.js";

export function JobsPage() {
  const jobs = usePoll((signal) => getJson("./jobs/overview", signal), []);
  const overview = usePoll((signal) => getJson("./overview", signal), []);
  return html`<h1>Jobs</h1>
    <${Shown} feed=${overview} missing="">${(data) => html`<${Counts} data=${data} />`}<//>
    <${Shown} feed=${jobs} missing="This server lists no jobs.">
      ${({ jobs: all = [] }) => html`
        <${Panel} title="Running"><${JobTable} caption="Running jobs" jobs=${all.filter((job) => !over(job.state))}
          empty="No job is running." /><//>
        <${Panel} title="Ended"><${JobTable} caption="Jobs that ended" jobs=${all.filter((job) => over(job.state))}
          empty="No job has ended yet." /><//>
      `}
    <//>`;
}

function Counts({ data }) {
  return html`<dl class="facts">
    <${Fact} name="Running">${exact(data["jobs-running"])}<//>
    <${Fact} name="Finished">${exact(data["jobs-finished"])}<//>
    <${Fact} name="Cancelled">${exact(data["jobs-cancelled"])}<//>
    <${Fact} name="Failed">${exact(data["jobs-failed"])}<//>
    <${Fact} name="Executors">${exact(data.taskmanagers)}<//>
    <${Fact} name="Slots">${exact(data["slots-total"])}<//>
  </dl>`;
}

function JobTable({ caption, jobs, empty }) {
  const columns = [
    {
      name: "Name",
      of: (job) => html`<a href=${link("job", job.jid, "overview")}><bdi>${job.name || "(no name)"}</bdi></a>`,
      by: (job) => job.name,
      wide: true,
    },
    { name: "State", of: (job) => html`<${Badge} state=${job.state} />`, by: (job) => job.state },
    { name: "Started", of: (job) => html`<${Moment} at=${job["start-time"]} />`, by: (job) => job["start-time"] },
    { name: "Duration", of: (job) => duration(job.duration), by: (job) => job.duration, right: true },
    { name: "Tasks", of: (job) => tasks(job.tasks), by: (job) => job.tasks?.total, right: true },
    { name: "Kind", of: (job) => String(job.jobType ?? "").toLowerCase(), by: (job) => job.jobType },
    { name: "Id", of: (job) => html`<code>${String(job.jid).slice(0, 8)}</code>` },
  ];
  const first = { name: "Started", down: true };
  return html`<${Table} ...${{ caption, columns, first, empty }} rows=${jobs} id=${(job) => job.jid} />`;
}

function tasks(counts) {
  if (!counts) return "–";
  const { total, ...states } = counts;
  const running = (states.running ?? 0) + (states.finished ?? 0);
  return running === total ? `${total}` : `${running} of ${total}`;
}
