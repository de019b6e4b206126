/** State as the newest snapshot has it: which states there are, how large, and what one key has in one of them. */

import { bytes, exact } from "../format/numbers.js";
import { html, useId, useState } from "../html.js";
import { Absent, Failure, Moment, Panel, Shown } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { getJson, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";

const SLOWLY = () => 5;

export function StatePage({ id }) {
  const feed = usePoll((signal) => getJson(path("jobs", id, "penstock", "state"), signal), [id], SLOWLY);
  const [chosen, setChosen] = useState(null);
  return html`<div class="panels">
    <${Panel} title="State in the newest snapshot">
      <${Shown} feed=${feed} missing="This server shows no state.">
        ${(data) => html`<${States} data=${data} onChosen=${setChosen} />`}
      <//>
    <//>
    ${chosen && html`<${LookUp} key="${chosen.operator_id} ${chosen.state}" id=${id} row=${chosen} />`}
  </div>`;
}

function States({ data, onChosen }) {
  if (!data.snapshot) return html`<${Absent}><bdi>${data.note ?? "There is no snapshot yet."}</bdi><//>`;
  const columns = [
    { name: "Step", of: (row) => html`<bdi>${row.operator}</bdi>`, by: (row) => row.operator, wide: true },
    { name: "State", of: (row) => html`<${Name} row=${row} onChosen=${onChosen} />`, by: (row) => row.state },
    { name: "Kind", of: (row) => row.kind, by: (row) => row.kind },
    { name: "Entries", of: (row) => exact(row.entries ?? undefined), by: (row) => row.entries, right: true },
    { name: "Size", of: (row) => bytes(row.bytes), by: (row) => row.bytes, right: true },
    { name: "Typed", of: (row) => html`<bdi class="wrap">${row.typed || "–"}</bdi>` },
    { name: "Pickled", of: (row) => html`<bdi class="wrap">${(row.pickled ?? []).join(", ") || "–"}</bdi>` },
  ];
  return html`<p class="quiet">Snapshot ${exact(data.snapshot.id)}, complete at <${Moment} at=${data.snapshot.created} />.
      Choose a state with keys to look one up.</p>
    <${Table} caption="States of the job" columns=${columns} rows=${data.states} id=${(row) => `${row.operator_id} ${row.state}`}
      empty="The snapshot holds no state." />
    ${data.truncated && html`<p class="quiet">There are more; the state processor lists all.</p>`}`;
}

function Name({ row, onChosen }) {
  if (!hasKeys(row)) return html`<bdi>${row.state || "–"}</bdi>`;
  return html`<button type="button" class="link" onClick=${() => onChosen(row)}><bdi>${row.state}</bdi></button>`;
}

function hasKeys(row) {
  return Boolean(row.state) && String(row.kind).startsWith("keyed");
}

function LookUp({ id, row }) {
  const [answer, setAnswer] = useState(null);
  const field = useId();
  const ask = async (event) => {
    event.preventDefault();
    const key = event.target.elements.key.value;
    setAnswer({ asking: true });
    const address = path("jobs", id, "penstock", "state", row.operator_id, row.state);
    try {
      setAnswer({ found: await getJson(`${address}?key=${encodeURIComponent(key)}`) });
    } catch (error) {
      setAnswer({ error });
    }
  };
  return html`<${Panel} title="One key">
    <form class="filter" onSubmit=${ask}>
      <label for=${field}>Key in <bdi>${row.state}</bdi> of <bdi>${row.operator}</bdi></label>
      <input id=${field} name="key" type="text" maxlength="1000" />
      <button type="submit" disabled=${answer?.asking}>Look up</button>
      <span class="quiet">as text, a number, or JSON: ann, 7, ["ann", 7]</span>
    </form>
    <div role="status">
      ${answer?.asking && html`<p class="absent">Reading the snapshot.</p>`}
      ${answer?.error && html`<${Failure} error=${answer.error} />`}
      ${answer?.found && html`<${Rows} found=${answer.found} />`}
    </div>
  <//>`;
}

function Rows({ found }) {
  if (!found.rows.length) {
    return html`<${Absent}>Snapshot ${exact(found.snapshot?.id)} has nothing for the key <bdi>${found.key}</bdi>.<//>`;
  }
  const names = Object.keys(found.rows[0]);
  const columns = names.map((name) => ({ name, of: (row) => html`<code class="wrap">${row[name]}</code>`, wide: name === "value" }));
  return html`<${Table} caption="What the key has" columns=${columns} rows=${found.rows.map((row, at) => ({ ...row, at }))}
      id=${(row) => row.at} />
    ${found.truncated && html`<p class="quiet">There is more; these are the first.</p>`}`;
}
