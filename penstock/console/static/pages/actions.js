/** What can be asked of a job: buttons, the question before each, and what became of it. */

import { clock } from "../format/time.js";
import { html, useEffect, useState } from "../html.js";
import { over } from "../model/states.js";
import { Dialog } from "../parts/dialog.js";
import { onRequests, requestsOf } from "../rest/actions.js";
import { CancelQuestion, CheckpointQuestion, RescaleQuestion, SavepointQuestion, StopQuestion } from "./questions.js";

const BUTTONS = [
  { name: "Checkpoint", Question: CheckpointQuestion },
  { name: "Savepoint", Question: SavepointQuestion },
  { name: "Rescale", Question: RescaleQuestion, feature: "web-rescale" },
  { name: "Stop", Question: StopQuestion },
  { name: "Cancel", Question: CancelQuestion, danger: true },
];

export function Actions({ id, look, features }) {
  const [open, setOpen] = useState(null);
  const ended = over(look.job.state);
  const batch = look.job["job-type"] === "BATCH";
  // Flink has no flag for a server that only shows: one that refuses to cancel refuses the rest, too.
  if (features?.["web-cancel"] === false) return html`<p class="quiet">This page only shows.</p>`;
  const shown = BUTTONS.filter(({ name, feature }) => features?.[feature] !== false && (!batch || name === "Cancel"));
  const question = shown.find(({ name }) => name === open);
  return html`<div class="actions" role="group" aria-label="Ask of the job">
      ${shown.map(
        ({ name, danger }) => html`<button type="button" key=${name} class=${danger ? "danger" : undefined}
          disabled=${ended} onClick=${() => setOpen(name)}>${name}…</button>`,
      )}
    </div>
    ${question && html`<${Asking} key=${open} ...${{ id, look, question }} onClose=${() => setOpen(null)} />`}
    <${Requests} id=${id} />`;
}

/** The question, then, in the same dialog, the outcome. */
function Asking({ id, look, question, onClose }) {
  const [request, setRequest] = useState(null);
  const found = useRequests(id).find((one) => one.id === request);
  return html`<${Dialog} title=${question.name} onClose=${onClose}>
    ${
      found
        ? html`<${Outcome} request=${found} />
          <p class="buttons"><button type="button" autofocus onClick=${onClose}>Close</button></p>`
        : html`<${question.Question} ...${{ id, look, onClose }} onAsked=${setRequest} />`
    }
  <//>`;
}

function Outcome({ request }) {
  return html`<p class="outcome ${request.status}" role="status">
    <b>${{ running: "Under way", done: "Done", failed: "Refused or failed" }[request.status]}</b>
    <span class="wrap">${request.text}</span>
  </p>`;
}

function Requests({ id }) {
  const requests = useRequests(id);
  if (!requests.length) return null;
  return html`<details class="requests">
    <summary>Asked from this page: ${requests.length}; the newest, ${requests[0].what.toLowerCase()}, is ${
      { running: "under way", done: "done", failed: "failed" }[requests[0].status]
    }</summary>
    <ol>
      ${requests.map(
        (request) => html`<li key=${request.id} class="outcome ${request.status}">
          <span class="number">${clock(request.at)}</span> <b>${request.what}</b> <span class="wrap">${request.text}</span>
        </li>`,
      )}
    </ol>
  </details>`;
}

function useRequests(id) {
  const [, redraw] = useState(0);
  useEffect(() => onRequests(() => redraw((times) => times + 1)), []);
  return requestsOf(id);
}
