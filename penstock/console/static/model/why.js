/** Why a job is slow or its event time late, told from one look at it. */

const BACKPRESSURED = 0.1;
const BUSY = 0.8;
const SKEWED = 30;

/** The subtask whose watermark is lowest, nearest to the sources; null when nothing has one. */
export function watermarkHolder(look, still) {
  let found = null;
  for (const vertex of upstreamFirst(look.vertices)) {
    for (const { subtask, value } of vertex.watermarks) {
      const lower = found === null || (value ?? -Infinity) < (found.value ?? -Infinity);
      if (value !== Infinity && lower) found = { vertex, subtask, value };
    }
  }
  if (found === null) return null;
  const lag = found.value === null ? null : look.now - found.value;
  return { ...found, lag, since: still.since(found.vertex.id, found.subtask) };
}

/**
 * The step that holds the others back: the busiest of those that read from a backpressured one and are not
 * backpressured themselves. Without backpressure there is none, and `busiest` is who would be next.
 */
export function bottleneck(look) {
  const byId = new Map(look.vertices.map((vertex) => [vertex.id, vertex]));
  const waitedFor = look.vertices.filter((vertex) =>
    vertex.inputs.some((input) => (byId.get(input.id)?.backpressured ?? 0) > BACKPRESSURED),
  );
  const free = waitedFor.filter((vertex) => (vertex.backpressured ?? 0) <= BACKPRESSURED);
  const step = busiest(free.length ? free : waitedFor);
  return { step, busiest: busiest(look.vertices), waiting: step ? waitersOn(step, byId) : [] };
}

function waitersOn(step, byId) {
  return step.inputs
    .map((input) => byId.get(input.id))
    .filter((vertex) => (vertex?.backpressured ?? 0) > BACKPRESSURED);
}

function busiest(vertices) {
  const known = vertices.filter((vertex) => vertex.busy !== undefined);
  return known.reduce((best, vertex) => (best && best.busy >= vertex.busy ? best : vertex), null);
}

/** Vertices whose subtasks get unequal shares of the records, the worst first. */
export function skewed(look) {
  const counts = (vertex) => vertex.parallelism > 1 && vertex.metrics.get("numRecordsIn")?.max > 0;
  const known = look.vertices.filter((vertex) => counts(vertex) && Number.isFinite(vertex.skew));
  return known.sort((one, other) => other.skew - one.skew);
}

export function isSkewed(vertex) {
  return vertex.skew >= SKEWED;
}

/** Sources before what reads from them, whatever order the server has. */
function upstreamFirst(vertices) {
  const byId = new Map(vertices.map((vertex) => [vertex.id, vertex]));
  const order = [];
  const seen = new Set();
  const visit = (vertex) => {
    if (!vertex || seen.has(vertex.id)) return;
    seen.add(vertex.id);
    for (const input of vertex.inputs) visit(byId.get(input.id));
    order.push(vertex);
  };
  vertices.forEach(visit);
  return order;
}

/**
 * The sentence of the first ten seconds: is the job well, and if not, what is the matter.
 *
 * `holder.since` counts from when this page first saw the value, so a job is not called stuck before that is true.
 */
export function verdict(look, still, checkpoints, stuckAfterMs = 60_000) {
  const { job } = look;
  if (job.state === "FAILED") return { mood: "bad", text: "Failed: see its exceptions." };
  if (job.state === "RESTARTING" || job.state === "FAILING") {
    return { mood: "warn", text: "Restarting after a failure: see its exceptions." };
  }
  if (job.state === "FINISHED") return { mood: "done", text: "Finished." };
  if (job.state === "CANCELED") return { mood: "done", text: "Cancelled." };
  if (job.state !== "RUNNING") return { mood: "wait", text: "Not running yet." };
  return trouble(look, still, checkpoints, stuckAfterMs) ?? { mood: "good", text: "Running well." };
}

function trouble(look, still, checkpoints, stuckAfterMs) {
  const newest = checkpoints?.history?.find((checkpoint) => checkpoint.status !== "IN_PROGRESS");
  if (newest?.status === "FAILED") {
    return { mood: "bad", text: `Checkpoint ${newest.id} failed.`, page: "checkpoints" };
  }
  const { step } = bottleneck(look);
  if (step && step.busy >= BUSY) {
    return { mood: "warn", text: "Backpressured: one step cannot keep up.", page: "why" };
  }
  const holder = watermarkHolder(look, still);
  if (holder && holder.since !== undefined && look.now - holder.since > stuckAfterMs) {
    return { mood: "warn", text: "Event time stands still.", page: "why" };
  }
  return null;
}
