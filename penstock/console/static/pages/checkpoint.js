/** One checkpoint: its steps, and each subtask's way through it as bars. */

import { bytes, exact } from "../format/numbers.js";
import { duration } from "../format/time.js";
import { html, useState } from "../html.js";
import { Absent, Badge, Failure, Panel, Shown } from "../parts/bits.js";
import { Gantt } from "../parts/gantt.js";
import { Table } from "../parts/table.js";
import { getJson, ifThere, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";
import { link } from "../router.js";

const MOST_ROWS = 200;

const PHASES = [
  { kind: "delay", name: "start delay" },
  { kind: "alignment", name: "alignment" },
  { kind: "sync", name: "synchronous part" },
  { kind: "async", name: "asynchronous part" },
];

export function CheckpointDetail({ id, look, chosen }) {
  const feed = usePoll(
    (signal) => load(id, chosen, signal),
    [id, chosen],
    (data) => (data?.status === "IN_PROGRESS" ? 1 : Infinity),
  );
  const aside = html`<a href=${link("job", id, "checkpoints")} aria-label="Close the checkpoint">✕</a>`;
  return html`<${Panel} title="Checkpoint ${chosen}" id="checkpoint-detail" aside=${aside}>
    <${Shown} feed=${feed} missing="The server no longer has this checkpoint.">
      ${(data) => html`<${Detail} data=${data} look=${look} />`}
    <//>
  <//>`;
}

async function load(id, chosen, signal) {
  const place = ["jobs", id, "checkpoints", "details", chosen];
  const detail = await getJson(path(...place), signal);
  const ids = Object.keys(detail.tasks ?? {});
  const steps = await Promise.all(ids.map((vertex) => ifThere(getJson(path(...place, "subtasks", vertex), signal))));
  return { ...detail, steps: ids.map((vertex, at) => ({ vertex, ...detail.tasks[vertex], ...steps[at] })) };
}

function Detail({ data, look }) {
  const names = new Map(look.vertices.map((vertex) => [vertex.id, vertex.name]));
  const named = data.steps.map((step) => ({ ...step, name: names.get(step.vertex) ?? step.vertex }));
  const [which, setWhich] = useState("");
  const rows = named.filter((step) => !which || step.vertex === which).flatMap(bars);
  const end = Math.max(1, ...rows.flatMap((row) => row.bars.map((bar) => bar.to)));
  const columns = [
    { name: "Step", of: (row) => html`<bdi>${row.name}</bdi>`, wide: true },
    { name: "State", of: (row) => html`<${Badge} state=${row.status} />` },
    {
      name: "Acknowledged",
      of: (row) => `${exact(row.num_acknowledged_subtasks)} of ${exact(row.num_subtasks)}`,
      right: true,
    },
    {
      name: "Duration",
      of: (row) => duration(row.end_to_end_duration),
      by: (row) => row.end_to_end_duration,
      right: true,
    },
    { name: "Written", of: (row) => bytes(row.checkpointed_size), by: (row) => row.checkpointed_size, right: true },
    { name: "Whole state", of: (row) => bytes(row.state_size), by: (row) => row.state_size, right: true },
    { name: "In flight", of: (row) => bytes(row.persisted_data), by: (row) => row.persisted_data, right: true },
  ];
  return html`
    ${data.failure_message && html`<${Failure} error=${new Error(data.failure_message)} />`}
    <${Table} caption="Steps of the checkpoint" columns=${columns} rows=${named} id=${(row) => row.vertex} />
    <p class="filter"><label>Subtasks of
      <select value=${which} onChange=${(event) => setWhich(event.target.value)}>
        <option value="">all steps</option>
        ${named.map((step) => html`<option key=${step.vertex} value=${step.vertex}>${step.name}</option>`)}
      </select></label></p>
    ${
      rows.length
        ? html`<${Gantt} label="Subtasks of the checkpoint" kinds=${PHASES} rows=${rows.slice(0, MOST_ROWS)} from=${0} to=${end} />
          ${rows.length > MOST_ROWS && html`<p class="quiet">The first ${MOST_ROWS} of ${rows.length}; choose a step to see its own.</p>`}
          <details><summary>The same as a table</summary><${SubtaskTable} steps=${named} /></details>`
        : html`<${Absent}>No subtask has told its times.<//>`
    }`;
}

/** The way of each subtask: it waits for the barrier, aligns, freezes its state, writes it. */
function bars(step) {
  return (step.subtasks ?? [])
    .filter((one) => one.checkpoint)
    .map((one) => {
      const lengths = [one.start_delay, one.alignment?.duration, one.checkpoint.sync, one.checkpoint.async];
      let at = 0;
      const made = [];
      lengths.forEach((length, phase) => {
        if (!(length > 0)) return;
        made.push({ from: at, to: at + length, kind: PHASES[phase].kind, what: PHASES[phase].name });
        at += length;
      });
      return { key: `${step.vertex} ${one.index}`, name: `${one.index} · ${step.name}`, bars: made };
    });
}

function SubtaskTable({ steps }) {
  const rows = steps.flatMap((step) => (step.subtasks ?? []).map((one) => ({ ...one, step })));
  const columns = [
    { name: "Step", of: (row) => html`<bdi>${row.step.name}</bdi>`, wide: true },
    { name: "#", of: (row) => exact(row.index), by: (row) => row.index, right: true },
    { name: "Start delay", of: (row) => duration(row.start_delay), by: (row) => row.start_delay, right: true },
    {
      name: "Alignment",
      of: (row) => duration(row.alignment?.duration),
      by: (row) => row.alignment?.duration,
      right: true,
    },
    { name: "Sync", of: (row) => duration(row.checkpoint?.sync), by: (row) => row.checkpoint?.sync, right: true },
    { name: "Async", of: (row) => duration(row.checkpoint?.async), by: (row) => row.checkpoint?.async, right: true },
    {
      name: "End to end",
      of: (row) => duration(row.end_to_end_duration),
      by: (row) => row.end_to_end_duration,
      right: true,
    },
    { name: "Written", of: (row) => bytes(row.checkpointed_size), by: (row) => row.checkpointed_size, right: true },
    {
      name: "Unaligned",
      of: (row) => (row.unaligned_checkpoint === undefined ? "–" : row.unaligned_checkpoint ? "yes" : "no"),
    },
  ];
  return html`<${Table} caption="Subtasks of the checkpoint" columns=${columns} rows=${rows} id=${(row) => `${row.step.vertex} ${row.index}`} />`;
}
