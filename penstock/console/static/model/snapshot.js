/**
 * One look at a job: what the server said of the job and its vertices, with the numbers that pages show.
 *
 * `busy`, `backpressured` and `idle` are shares of a second from 0 to 1 of the worst subtask, as on Flink's graph.
 */

import { known } from "../format/numbers.js";
import { watermark } from "../format/time.js";
import { operatorRows } from "./metrics.js";
import { over } from "./states.js";

const ENDED = Object.fromEntries(
  ["rateIn", "rateOut", "busy", "backpressured", "idle", "lag"].map((name) => [name, undefined]),
);

/** `answers` maps a vertex' id to `{metrics, watermarks}`; `before` is the look before this one, if any. */
export function lookAt(job, answers, before) {
  const inputs = new Map((job.plan?.nodes ?? []).map((node) => [node.id, node.inputs ?? []]));
  const read = new Set([...inputs.values()].flat().map((input) => input.id));
  const vertices = (job.vertices ?? []).map((vertex) => ({
    id: vertex.id,
    name: String(vertex.name ?? ""),
    description: String(nodeOf(job, vertex.id)?.description || vertex.name || ""),
    parallelism: vertex.parallelism,
    maxParallelism: vertex.maxParallelism,
    status: vertex.status,
    started: vertex["start-time"],
    duration: vertex.duration,
    tasks: vertex.tasks ?? {},
    totals: vertex.metrics ?? {},
    inputs: inputs.get(vertex.id) ?? [],
    isSource: (inputs.get(vertex.id) ?? []).length === 0,
    isSink: !read.has(vertex.id),
    ...measured(vertex, answers.get(vertex.id), job.now, before),
    // What is over has no rate, load or lag, though the last ones may still be told.
    ...(over(job.state) ? ENDED : {}),
  }));
  return { job, vertices, now: job.now ?? Date.now(), flow: flow(vertices) };
}

function nodeOf(job, id) {
  return (job.plan?.nodes ?? []).find((node) => node.id === id);
}

function measured(vertex, answer, now, before) {
  const metrics = answer?.metrics ?? new Map();
  const watermarks = (answer?.watermarks ?? []).map((entry) => ({
    subtask: Number.parseInt(entry.id, 10),
    value: watermark(entry.value),
  }));
  const low = lowest(watermarks);
  return {
    metrics,
    watermarks,
    watermark: low,
    lag: low !== null && Number.isFinite(low) ? now - low : undefined,
    busy: share(metrics.get("busyTimeMsPerSecond")?.max),
    backpressured: share(metrics.get("backPressuredTimeMsPerSecond")?.max),
    idle: share(metrics.get("idleTimeMsPerSecond")?.min ?? metrics.get("idleTimeMsPerSecond")?.avg),
    rateIn: metrics.get("numRecordsInPerSecond")?.sum ?? rateOf(vertex, "read-records", now, before),
    rateOut: metrics.get("numRecordsOutPerSecond")?.sum ?? rateOf(vertex, "write-records", now, before),
    skew: metrics.get("numRecordsIn")?.skew,
    operators: operatorRows(metrics),
  };
}

/** The lowest watermark of all subtasks; null when one has none yet, undefined when there are none. */
function lowest(watermarks) {
  if (!watermarks.length) return undefined;
  if (watermarks.some(({ value }) => value === null)) return null;
  return Math.min(...watermarks.map(({ value }) => value));
}

function share(perSecond) {
  return known(perSecond) ? Math.min(Math.max(perSecond / 1000, 0), 1) : undefined;
}

/** Where the server has no rate, what the counter grew by since the look before. */
function rateOf(vertex, counter, now, before) {
  const earlier = before?.vertices.find(({ id }) => id === vertex.id)?.totals[counter];
  const later = vertex.metrics?.[counter];
  const seconds = (now - (before?.now ?? now)) / 1000;
  if (!known(earlier) || !known(later) || seconds <= 0) return undefined;
  return Math.max(0, (later - earlier) / seconds);
}

/** What the whole job takes in and gives out, and how far event time is behind. */
function flow(vertices) {
  const sum = (chosen, value) => {
    const numbers = chosen.map(value).filter((number) => known(number));
    return numbers.length ? numbers.reduce((one, other) => one + other, 0) : undefined;
  };
  return {
    rateIn: sum(
      vertices.filter((vertex) => vertex.isSource),
      (vertex) => larger(vertex.rateIn, vertex.rateOut),
    ),
    rateOut: sum(
      vertices.filter((vertex) => vertex.isSink),
      (vertex) => vertex.rateIn ?? vertex.rateOut,
    ),
    late: sum(
      vertices.flatMap((vertex) => vertex.operators),
      (row) => row.late,
    ),
    lag: vertices.map((vertex) => vertex.lag).reduce(larger, undefined),
  };
}

function larger(one, other) {
  if (one === undefined || other === undefined) return one ?? other;
  return Math.max(one, other);
}
