/** All jobs that this server knows: running ones first; below, what of an archive could not be shown. */

import { exact } from "../format/numbers.js";
import { duration } from "../format/time.js";
import { html } from "../html.js";
import { over } from "../model/states.js";
import { Badge, Fact, Moment, Panel, Shown } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { getJson, ifThere } from "../rest/client.js";
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
    <//>
    <${Archives} />`;
}

/** Where ended jobs come from; a driver has none, and then there is nothing to say. */
function Archives() {
  const feed = usePoll(
    (signal) => ifThere(getJson("./penstock/archives", signal)),
    [],
    (data) => (data === null ? Infinity : 5),
  );
  const directories = feed.data?.archives ?? [];
  if (!directories.length) return null;
  const refused = directories.flatMap(({ refused: files = [] }) => files);
  return html`<${Panel} title="Archives">
    <ul>${directories.map((one) => html`<li key=${one.directory}><code>${one.directory}</code>${said(one)}</li>`)}</ul>
    ${
      refused.length > 0 &&
      html`<${Table} caption="Files that hold no job that could be shown" columns=${FILES} rows=${refused}
        id=${(one) => one.file} />`
    }
  <//>`;
}

const FILES = [
  { name: "File", of: (one) => html`<bdi>${String(one.file)}</bdi>`, by: (one) => one.file },
  { name: "Why not", of: (one) => html`<bdi class="wrap">${String(one.reason)}</bdi>`, wide: true },
];

function said({ error, unread, more }) {
  const parts = [
    error && ` cannot be read now: ${error}`,
    unread > 0 && ` ${exact(unread)} not read yet`,
    more > 0 && ` ${exact(more)} older not shown`,
  ];
  return parts.filter(Boolean).join(";");
}

/** The page of a run: a list of many drivers has one for each. */
function pageOf(job) {
  const own = job["penstock-page"];
  if (own === undefined) return link("job", job.jid, "overview");
  return /^at\/[0-9a-f]{32}\/$/.test(own) ? `./${own}${link("job", job.jid, "overview")}` : undefined;
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
      of: (job) => html`<a href=${pageOf(job)}><bdi>${job.name || "(no name)"}</bdi></a>`,
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
  return html`<${Table} ...${{ caption, columns, first, empty }} rows=${jobs} id=${(job) => job["penstock-page"] || job.jid} />`;
}

function tasks(counts) {
  if (!counts) return "–";
  const { total, ...states } = counts;
  const running = (states.running ?? 0) + (states.finished ?? 0);
  return running === total ? `${total}` : `${running} of ${total}`;
}
