/** Checkpoints: how many, what the last ones cost, one in detail, and how they are configured. */

import { bytes, exact } from "../format/numbers.js";
import { duration, moment } from "../format/time.js";
import { html, useMemo } from "../html.js";
import { words } from "../model/states.js";
import { Absent, Badge, Fact, Moment, Panel, Shown } from "../parts/bits.js";
import { Chart } from "../parts/chart.js";
import { Table } from "../parts/table.js";
import { link } from "../router.js";
import { CheckpointDetail } from "./checkpoint.js";
import { CheckpointConfig, CheckpointSummary } from "./checkpoint_facts.js";

export function CheckpointsPage({ id, look, checkpoints, route }) {
  const [chosen] = route;
  return html`<${Shown} feed=${checkpoints} missing="Checkpointing is off for this job, or the server keeps no statistics of it.">
    ${(data) => html`<div class="panels">
      <${Counts} data=${data} look=${look} />
      <${Costs} history=${data.history ?? []} />
      ${chosen && html`<${CheckpointDetail} key=${chosen} ...${{ id, look, chosen }} />`}
      <${Panel} title="History"><${History} id=${id} history=${data.history ?? []} chosen=${chosen} /><//>
      <${CheckpointSummary} summary=${data.summary} />
      <${CheckpointConfig} id=${id} />
    </div>`}
  <//>`;
}

function Counts({ data, look }) {
  const { counts = {}, latest = {} } = data;
  return html`<${Panel} title="Overview">
    <dl class="facts">
      <${Fact} name="Completed">${exact(counts.completed)}<//>
      <${Fact} name="In progress">${exact(counts.in_progress)}<//>
      <${Fact} name="Failed">${exact(counts.failed)}<//>
      <${Fact} name="Restored">${exact(counts.restored)}<//>
      <${Fact} name="Newest completed">${age(latest.completed?.latest_ack_timestamp, look.now)}<//>
      <${Fact} name="Newest savepoint">${age(latest.savepoint?.latest_ack_timestamp, look.now)}<//>
      <${Fact} name="Newest failure">${age(latest.failed?.failure_timestamp, look.now)}<//>
    </dl>
    <${Failed} checkpoint=${latest.failed} />
    <${Place} name="Newest" path=${latest.completed?.external_path} />
    <${Place} name="Newest savepoint" path=${latest.savepoint?.external_path} />
    <${Restored} checkpoint=${latest.restored} />
  <//>`;
}

function Failed({ checkpoint }) {
  if (!checkpoint?.failure_message) return null;
  return html`<p class="failure wrap">
    Checkpoint ${checkpoint.id} failed ${moment(checkpoint.failure_timestamp)}: ${checkpoint.failure_message}
  </p>`;
}

function Place({ name, path }) {
  return path ? html`<p class="quiet wrap">${name}: <code>${path}</code></p>` : null;
}

function Restored({ checkpoint }) {
  if (!checkpoint) return null;
  const kind = checkpoint.is_savepoint ? "savepoint" : "checkpoint";
  const from = checkpoint.external_path && html` from <code>${checkpoint.external_path}</code>`;
  return html`<p class="quiet wrap">
    Restored ${kind} ${exact(checkpoint.id)} at <${Moment} at=${checkpoint.restore_timestamp} />${from}.
  </p>`;
}

function age(at, now) {
  return at > 0 ? `${duration(now - at)} ago` : "–";
}

/** Sizes and durations of those that were completed, oldest first. */
function Costs({ history }) {
  const done = [...history]
    .filter((one) => one.status === "COMPLETED")
    .sort((one, other) => one.trigger_timestamp - other.trigger_timestamp);
  const stamp = done.map((one) => `${one.id}`).join(" ");
  const [sizes, times] = useMemo(() => {
    const at = done.map((one) => one.trigger_timestamp / 1000);
    return [
      [at, done.map((one) => one.state_size), done.map((one) => one.checkpointed_size)],
      [at, done.map((one) => one.end_to_end_duration)],
    ];
  }, [stamp]);
  if (!done.length) return html`<${Panel} title="Sizes over time"><${Absent}>None is complete yet.<//><//>`;
  return html`<div class="charts two">
    <${Panel} title="Sizes over time"><${Chart} label="Sizes of checkpoints" as=${bytes} data=${sizes} points
      lines=${[{ name: "whole state" }, { name: "newly written" }]} /><//>
    <${Panel} title="Durations"><${Chart} label="Durations of checkpoints" as=${duration} data=${times} points
      lines=${[{ name: "end to end" }]} /><//>
  </div>`;
}

function History({ id, history, chosen }) {
  const columns = [
    {
      name: "Id",
      of: (row) => html`<a href=${link("job", id, "checkpoints", row.id)}>${exact(row.id)}</a>`,
      by: (row) => row.id,
      right: true,
    },
    { name: "State", of: (row) => html`<${Badge} state=${row.status} />`, by: (row) => row.status },
    {
      name: "Kind",
      of: (row) => (row.is_savepoint ? "savepoint" : words(row.checkpoint_type ?? "checkpoint")),
      by: (row) => row.checkpoint_type,
    },
    {
      name: "Triggered",
      of: (row) => html`<${Moment} at=${row.trigger_timestamp} />`,
      by: (row) => row.trigger_timestamp,
    },
    {
      name: "Duration",
      of: (row) => duration(row.end_to_end_duration),
      by: (row) => row.end_to_end_duration,
      right: true,
    },
    { name: "Acknowledged", of: (row) => `${row.num_acknowledged_subtasks} of ${row.num_subtasks}`, right: true },
    { name: "Written", of: (row) => bytes(row.checkpointed_size), by: (row) => row.checkpointed_size, right: true },
    { name: "Whole state", of: (row) => bytes(row.state_size), by: (row) => row.state_size, right: true },
    { name: "In flight", of: (row) => bytes(row.persisted_data), by: (row) => row.persisted_data, right: true },
  ];
  return html`<${Table} caption="Checkpoints, newest first" columns=${columns} rows=${history} id=${(row) => row.id}
    empty="None yet." rowClass=${(row) => (String(row.id) === chosen ? "chosen" : undefined)} />`;
}
