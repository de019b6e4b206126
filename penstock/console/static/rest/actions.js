/**
 * What a user asks of a job, and what became of it.
 *
 * Each request carries an id of our own making, so that one whose answer was lost is asked again without being
 * done twice. Outcomes stay in a list for as long as the page is open, whatever page of it is shown.
 */

import { getJson, path, RestError, send } from "./client.js";
import { refreshInterval } from "./feed.js";

const TRIES = 3;
const SILENCE_MS = 30_000;
const listeners = new Set();
let requests = [];

export function requestsOf(job) {
  return requests.filter((request) => request.job === job);
}

export function onRequests(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function takeCheckpoint(job, { full }) {
  const body = { checkpointType: full ? "FULL" : "CONFIGURED", triggerId: newId() };
  return follow(job, "Checkpoint", ["checkpoints"], body, (operation) =>
    known(operation.checkpointId) ? `Checkpoint ${operation.checkpointId} is complete.` : "The checkpoint is complete.",
  );
}

export function takeSavepoint(job, { directory }) {
  const body = { "cancel-job": false, formatType: "CANONICAL", triggerId: newId() };
  if (directory) body["target-directory"] = directory;
  return follow(job, "Savepoint", ["savepoints"], body, located);
}

export function stopWithSavepoint(job, { directory, drain }) {
  const body = { drain, formatType: "CANONICAL", triggerId: newId() };
  if (directory) body.targetDirectory = directory;
  return follow(job, drain ? "Stop and drain" : "Stop", ["stop"], body, located);
}

/** Accepted at once; it is done when the job says so. */
export function cancel(job) {
  return record(job, "Cancel", async (say) => {
    await patiently(() => send("PATCH", `${path("jobs", job)}?mode=cancel`));
    say("Accepted; the job is being cancelled.");
    return reached(
      job,
      (now) => ["CANCELED", "FINISHED", "FAILED"].includes(now.state),
      (now) => (now.state === "CANCELED" ? "The job is cancelled." : `The job ended first: ${now.state}.`),
    );
  });
}

/** One number for the job; its driver says when all tasks run, or why it went on as before. */
export function rescale(job, parallelism) {
  const body = { triggerId: newId() };
  const place = ["rescaling"];
  const ask = () => send("PATCH", `${path("jobs", job, ...place)}?parallelism=${parallelism}`, body);
  return followed(job, "Rescale", place, body, ask, () => `The job runs at parallelism ${parallelism}.`);
}

/** Ask, then ask for the outcome until there is one. */
function follow(job, what, place, body, said) {
  return followed(job, what, place, body, () => send("POST", path("jobs", job, ...place), body), said);
}

function followed(job, what, place, body, ask, said) {
  return record(job, what, async (say) => {
    const answer = await patiently(ask);
    const trigger = answer["request-id"] ?? body.triggerId;
    say("Accepted; under way.");
    const asked = place[0] === "stop" ? "savepoints" : place[0];
    const silence = new Silence();
    for (;;) {
      await pause();
      const found = silence.broken(await outcome(path("jobs", job, asked, trigger)));
      if (found?.status?.id !== "COMPLETED") continue;
      const operation = found.operation ?? {};
      if (operation["failure-cause"]) throw new Error(cause(operation["failure-cause"]));
      return said(operation);
    }
  });
}

/** No answer is no outcome yet: the driver may come back. */
async function outcome(address) {
  try {
    return await getJson(address);
  } catch (error) {
    if (error instanceof RestError && error.status === 0) return null;
    throw error;
  }
}

/** A driver that ended with its job answers no more: its log then has what we could not hear. */
class Silence {
  #since = null;

  broken(answer) {
    if (answer !== null) this.#since = null;
    else this.#since ??= Date.now();
    if (this.#since !== null && Date.now() - this.#since > SILENCE_MS) {
      throw new Error("The driver no longer answers, and did not say the outcome: look into its log.");
    }
    return answer;
  }
}

async function reached(job, done, said) {
  const silence = new Silence();
  for (;;) {
    const now = silence.broken(await outcome(path("jobs", job)));
    if (now && done(now)) return said(now);
    if (now && now.state === "FAILED") throw new Error("The job failed: see its exceptions.");
    await pause();
  }
}

function record(job, what, work) {
  const request = { id: newId(), job, what, at: Date.now(), status: "running", text: "Asking." };
  requests = [request, ...requests].slice(0, 50);
  const update = (change) => {
    requests = requests.map((one) => (one.id === request.id ? { ...one, ...change } : one));
    for (const listener of listeners) listener();
  };
  update({});
  work((text) => update({ text })).then(
    (text) => update({ status: "done", text, ended: Date.now() }),
    (error) => update({ status: "failed", text: error.message, ended: Date.now() }),
  );
  return request.id;
}

async function patiently(ask) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask();
    } catch (error) {
      const unanswered = error instanceof RestError && error.status === 0;
      if (!unanswered || attempt === TRIES) throw error;
      await pause();
    }
  }
}

function located(operation) {
  return operation.location ? `Written to ${operation.location}` : "The savepoint is complete.";
}

function cause(failure) {
  const text = String(failure["stack-trace"] ?? failure.class ?? "It failed, without a reason.");
  return text.length > 4000 ? `${text.slice(0, 4000)} …` : text;
}

function known(value) {
  return value !== undefined && value !== null;
}

function pause() {
  return new Promise((done) => setTimeout(done, Math.min(refreshInterval(), 1000)));
}

function newId() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return [...random].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
