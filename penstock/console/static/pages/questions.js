/** The question before each request: what will happen, and what it needs to know. */

import { html, useState } from "../html.js";
import { getJson, ifThere, path } from "../rest/client.js";
import { cancel, rescale, stopWithSavepoint, takeCheckpoint, takeSavepoint } from "../rest/actions.js";
import { ONCE, usePoll } from "../rest/feed.js";
import { Failure, Shown } from "../parts/bits.js";

/** A form whose first button does nothing: Enter in a field asks, Escape never does. */
function Question({ children, yes, danger, onAsk, onClose }) {
  const submit = (event) => {
    event.preventDefault();
    onAsk();
  };
  return html`<form onSubmit=${submit}>
    ${children}
    <p class="buttons">
      <button type="button" onClick=${onClose}>Back</button>
      <button type="submit" class=${danger ? "danger strong" : "strong"}>${yes}</button>
    </p>
  </form>`;
}

function Directory({ value, onValue }) {
  return html`<label class="field">Directory
    <input type="text" value=${value} onInput=${(event) => onValue(event.target.value)} spellcheck="false"
      placeholder="as configured" autocomplete="off" autocapitalize="off" />
    <small>Empty: the configured savepoint directory.</small>
  </label>`;
}

function Check({ value, onValue, children }) {
  return html`<label class="check">
    <input type="checkbox" checked=${value} onChange=${(event) => onValue(event.target.checked)} /> ${children}
  </label>`;
}

export function CheckpointQuestion({ id, onAsked, onClose }) {
  const [full, setFull] = useState(false);
  return html`<${Question} yes="Take a checkpoint" onClose=${onClose} onAsk=${() => onAsked(takeCheckpoint(id, { full }))}>
    <p>The job goes on while its state is written.</p>
    <${Check} value=${full} onValue=${setFull}>Full: share no files with earlier checkpoints<//>
  <//>`;
}

export function SavepointQuestion({ id, onAsked, onClose }) {
  const [directory, setDirectory] = useState("");
  const ask = () => onAsked(takeSavepoint(id, { directory: directory.trim() }));
  return html`<${Question} yes="Take a savepoint" onClose=${onClose} onAsk=${ask}>
    <p>The job goes on. The savepoint is yours: nothing deletes it, and any later version of the job can start from it.</p>
    <${Directory} value=${directory} onValue=${setDirectory} />
  <//>`;
}

export function StopQuestion({ id, onAsked, onClose }) {
  const [directory, setDirectory] = useState("");
  const [drain, setDrain] = useState(false);
  const ask = () => onAsked(stopWithSavepoint(id, { directory: directory.trim(), drain }));
  return html`<${Question} yes=${drain ? "Drain and stop" : "Stop with a savepoint"} danger onClose=${onClose} onAsk=${ask}>
    <p>The job writes a savepoint, commits all that is in it, and ends.</p>
    <${Directory} value=${directory} onValue=${setDirectory} />
    <${Check} value=${drain} onValue=${setDrain}>
      Drain: fire all windows and timers first. The job is then at its end for good; do not go on from this savepoint.
    <//>
  <//>`;
}

export function CancelQuestion({ id, onAsked, onClose }) {
  return html`<${Question} yes="Cancel the job" danger onClose=${onClose} onAsk=${() => onAsked(cancel(id))}>
    <p>The job ends at once, without a savepoint. What came after its last checkpoint is not committed.</p>
  <//>`;
}

export function RescaleQuestion(props) {
  const feed = usePoll(
    (signal) => ifThere(getJson(path("jobs", props.id, "resource-requirements"), signal)),
    [props.id],
    ONCE,
  );
  const no = html`This job cannot be rescaled from here. <button type="button" onClick=${props.onClose}>Back</button>`;
  return html`<${Shown} feed=${feed} missing=${no}>
    ${(data) => html`<${RescaleForm} ...${props} bounds=${data.jobVertexResourceRequirements ?? {}} />`}
  <//>`;
}

function RescaleForm({ id, look, onAsked, onClose, bounds }) {
  const now = Object.fromEntries(
    look.vertices.map((vertex) => [vertex.id, bounds[vertex.id]?.parallelism?.upperBound ?? vertex.parallelism]),
  );
  const [wanted, setWanted] = useState(now);
  const [error, setError] = useState(null);
  const numbers = Object.values(wanted);
  const all = new Set(numbers).size === 1 ? numbers[0] : "";
  const setAll = (value) => setWanted(Object.fromEntries(look.vertices.map((vertex) => [vertex.id, value])));
  const ask = () => {
    if (numbers.every((number) => Number.isInteger(number) && number > 0)) onAsked(rescale(id, wanted));
    else setError(new Error("Parallelism is a whole number from 1."));
  };
  return html`<${Question} yes="Rescale" danger onClose=${onClose} onAsk=${ask}>
    <p>The job restarts from a snapshot with another number of subtasks; its results stay exact.</p>
    ${error && html`<${Failure} error=${error} />`}
    <${Parallelism} name="All steps" value=${all} onValue=${setAll} />
    <details>
      <summary>Each step by itself</summary>
      ${look.vertices.map(
        (vertex) => html`<${Parallelism} key=${vertex.id} name=${vertex.name} most=${vertex.maxParallelism}
          value=${wanted[vertex.id]} onValue=${(value) => setWanted({ ...wanted, [vertex.id]: value })} />`,
      )}
    </details>
  <//>`;
}

function Parallelism({ name, value, onValue, most }) {
  const change = (event) => onValue(event.target.value === "" ? "" : Number(event.target.value));
  return html`<label class="field row"><bdi>${name}</bdi>
    <input type="number" min="1" max=${most > 0 ? most : undefined} step="1" value=${value} onInput=${change} />
  </label>`;
}
