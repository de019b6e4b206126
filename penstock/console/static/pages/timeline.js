/** When the job, its steps and their subtasks were in which state. */

import { duration, moment } from "../format/time.js";
import { html, useState } from "../html.js";
import { over, words } from "../model/states.js";
import { Absent, Moment, Panel, Shown } from "../parts/bits.js";
import { Gantt } from "../parts/gantt.js";
import { Table } from "../parts/table.js";
import { getJson, ifThere, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";

const KINDS = [
  "CREATED",
  "SCHEDULED",
  "DEPLOYING",
  "INITIALIZING",
  "RUNNING",
  "FINISHED",
  "RESTARTING",
  "CANCELED",
  "FAILED",
];
const ENDS = new Set(["FINISHED", "CANCELED", "FAILED", "SUSPENDED"]);
const ALIKE = {
  CANCELING: "CANCELED",
  CANCELLING: "CANCELED",
  FAILING: "FAILED",
  SUSPENDED: "CANCELED",
  RECONCILING: "RESTARTING",
};

export function TimelinePage({ id, look }) {
  const [which, setWhich] = useState("");
  const { job } = look;
  const from = job["start-time"] > 0 ? job["start-time"] : look.now;
  const to = over(job.state) && job["end-time"] > 0 ? job["end-time"] : look.now;
  const rows = [
    { key: "job", name: "The job", bars: bars(job.timestamps, to) },
    ...look.vertices.map((vertex) => ({
      key: vertex.id,
      name: vertex.name,
      bars:
        vertex.started > 0 ? [bar(vertex.status, vertex.started, vertex.started + Math.max(0, vertex.duration))] : [],
    })),
  ];
  return html`<div class="panels">
    <${Panel} title="Job and steps">
      <p class="quiet">
        From <${Moment} at=${from} /> to ${over(job.state) ? html`<${Moment} at=${to} />` : "now"}, ${duration(to - from)}.
      </p>
      <${Gantt} label="States of the job and its steps" rows=${rows} kinds=${kindsOf(rows)} from=${from} to=${to} />
      <${StateTable} timestamps=${job.timestamps} />
    <//>
    <${Panel} title="Subtasks" aside=${html`<${Choice} ...${{ look, which, setWhich }} />`}>
      ${
        which
          ? html`<${Subtasks} key=${which} ...${{ id, which, to, from }} />`
          : html`<${Absent}>Choose a step to see when its subtasks changed state.<//>`
      }
    <//>
  </div>`;
}

function Choice({ look, which, setWhich }) {
  return html`<label class="quiet">of
    <select value=${which} onChange=${(event) => setWhich(event.target.value)}>
      <option value="">choose a step</option>
      ${look.vertices.map((vertex) => html`<option key=${vertex.id} value=${vertex.id}>${vertex.name}</option>`)}
    </select></label>`;
}

function Subtasks({ id, which, from, to }) {
  const feed = usePoll(
    (signal) => ifThere(getJson(path("jobs", id, "vertices", which, "subtasktimes"), signal)),
    [id, which],
    () => 3,
  );
  return html`<${Shown} feed=${feed} missing="The server keeps no times of this step's subtasks.">
    ${(data) => {
      const rows = (data.subtasks ?? []).map((one) => ({
        key: one.subtask,
        name: `${one.subtask} · ${one.host ?? one.endpoint ?? ""}`,
        bars: bars(one.timestamps, to),
      }));
      return html`<${Gantt} label="States of the subtasks" rows=${rows} kinds=${kindsOf(rows)} from=${from} to=${to} />`;
    }}
  <//>`;
}

/** Each state lasts until the next one begins, and the last until now; an end lasts no time. */
function bars(timestamps, to) {
  const steps = Object.entries(timestamps ?? {})
    .filter(([, at]) => at > 0)
    .sort(([, one], [, other]) => one - other);
  return steps
    .map(([state, at], index) =>
      bar(state, at, index + 1 < steps.length ? steps[index + 1][1] : ENDS.has(state) ? at : to),
    )
    .filter(({ from, to: end }, index, all) => end > from || index === all.length - 1);
}

function bar(state, from, to) {
  return { from, to: Math.max(from, to), kind: `state-${(ALIKE[state] ?? state).toLowerCase()}`, what: words(state) };
}

function kindsOf(rows) {
  const used = new Set(rows.flatMap((row) => row.bars.map((one) => one.kind)));
  return KINDS.map((state) => ({ kind: `state-${state.toLowerCase()}`, name: words(state) })).filter(({ kind }) =>
    used.has(kind),
  );
}

function StateTable({ timestamps }) {
  const rows = Object.entries(timestamps ?? {})
    .filter(([, at]) => at > 0)
    .sort(([, one], [, other]) => one - other);
  return html`<details><summary>The job's states as a table</summary>
    <${Table} caption="When the job entered each state" rows=${rows} id=${([state]) => state}
      columns=${[
        { name: "State", of: ([state]) => words(state) },
        { name: "Since", of: ([, at]) => moment(at) },
      ]} />
  </details>`;
}
