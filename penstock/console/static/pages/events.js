/** What happened, in order: the coordinator's own log where the server has it, else what can be told from the rest. */

import { exact } from "../format/numbers.js";
import { duration } from "../format/time.js";
import { html, useId, useState } from "../html.js";
import { toldEvents } from "../model/told.js";
import { words } from "../model/states.js";
import { Moment, Panel, Shown } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { getJson, ifThere, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";

const MOST_ROWS = 1000;

export function EventsPage({ id, look, checkpoints }) {
  const events = usePoll((signal) => toldEvents(id, signal), [id]);
  const failures = usePoll(
    (signal) => ifThere(getJson(`${path("jobs", id, "exceptions")}?maxExceptions=50`, signal)),
    [id],
    () => 2,
  );
  // The feed's null means that the server keeps no log: the page then tells what it can itself.
  const shown = events.data === null ? { ...events, data: told(look, checkpoints.data, failures.data) } : events;
  return html`<${Panel} title="Events">
    ${
      events.data === null &&
      html`<p class="quiet">This server keeps no log of events; these are told from states, failures and checkpoints.</p>`
    }
    <${Shown} feed=${shown} missing="">${(rows) => html`<${Log} rows=${Array.isArray(rows) ? rows : []} />`}<//>
  <//>`;
}

function Log({ rows }) {
  const [find, setFind] = useState("");
  const [kind, setKind] = useState("");
  const field = useId();
  const kinds = [...new Set(rows.map((row) => String(row.kind)))].sort();
  const wanted = find.trim().toLowerCase();
  const newest = [...rows]
    .sort((one, other) => other.time - one.time)
    .filter((row) => (!kind || row.kind === kind) && `${row.kind} ${row.text}`.toLowerCase().includes(wanted));
  const columns = [
    { name: "When", of: (row) => html`<${Moment} at=${row.time} />` },
    { name: "Kind", of: (row) => html`<bdi>${words(row.kind)}</bdi>` },
    { name: "What", of: (row) => html`<bdi class="wrap">${String(row.text)}</bdi>`, wide: true },
  ];
  return html`<p class="filter">
      <label for=${field}>Filter</label>
      <input id=${field} type="search" value=${find} onInput=${(event) => setFind(event.target.value)} />
      <label>Kind <select value=${kind} onChange=${(event) => setKind(event.target.value)}>
        <option value="">all</option>${kinds.map((one) => html`<option key=${one} value=${one}>${words(one)}</option>`)}
      </select></label>
      <span class="quiet" role="status">${exact(newest.length)} of ${exact(rows.length)}</span>
    </p>
    <${Table} caption="Events, newest first" columns=${columns} rows=${newest.slice(0, MOST_ROWS)}
      id=${(row) => `${row.time} ${row.kind} ${row.text}`} empty="Nothing yet." />`;
}

function told(look, checkpoints, failures) {
  const states = Object.entries(look.job.timestamps ?? {})
    .filter(([, time]) => time > 0)
    .map(([state, time]) => ({ time, kind: "state", text: `The job is ${words(state)}.` }));
  const broken = (failures?.exceptionHistory?.entries ?? []).map((entry) => ({
    time: entry.timestamp,
    kind: "failure",
    text: `${entry.exceptionName} in ${entry.taskName ?? "the whole job"}`,
  }));
  const taken = (checkpoints?.history ?? []).map((one) => ({
    time: one.trigger_timestamp,
    kind: one.is_savepoint ? "savepoint" : "checkpoint",
    text: `${one.is_savepoint ? "Savepoint" : "Checkpoint"} ${one.id} ${words(one.status)}${
      one.end_to_end_duration > 0 ? ` in ${duration(one.end_to_end_duration)}` : ""
    }${one.failure_message ? `: ${one.failure_message}` : ""}`,
  }));
  return [...states, ...broken, ...taken];
}
