/** The question before each request: what will happen, and what it needs to know. */

import { html, useState } from "../html.js";
import { cancel, rescale, stopWithSavepoint, takeCheckpoint, takeSavepoint } from "../rest/actions.js";
import { Failure } from "../parts/bits.js";

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

export function RescaleQuestion({ id, look, onAsked, onClose }) {
  const [wanted, setWanted] = useState(Math.max(...look.vertices.map((vertex) => vertex.parallelism)));
  const [error, setError] = useState(null);
  const change = (event) => setWanted(event.target.value === "" ? "" : Number(event.target.value));
  const ask = () => {
    if (Number.isInteger(wanted) && wanted > 0) onAsked(rescale(id, wanted));
    else setError(new Error("Parallelism is a whole number from 1."));
  };
  return html`<${Question} yes="Rescale" danger onClose=${onClose} onAsk=${ask}>
    <p>The job takes a checkpoint and goes on from it with new slots; its results stay exact. Its output pauses meanwhile.</p>
    ${error && html`<${Failure} error=${error} />`}
    <label class="field row">Parallelism
      <input type="number" min="1" step="1" value=${wanted} onInput=${change} />
      <small>Steps with a parallelism of their own keep it.</small>
    </label>
  <//>`;
}
