/** Which metrics the page asks for, and how it reads the answers. */

/** Of a whole vertex, at every refresh. */
export const VERTEX_METRICS = [
  "backPressuredTimeMsPerSecond",
  "busyTimeMsPerSecond",
  "idleTimeMsPerSecond",
  "numRecordsInPerSecond",
  "numRecordsOutPerSecond",
  "numRecordsIn",
];

/** Of single operators, where the server has them: the end of the name, what it is, and which number counts. */
const OPERATOR_METRICS = [
  { end: "currentEmitEventTimeLag", is: "emitLag", of: "max" },
  { end: "currentFetchEventTimeLag", is: "fetchLag", of: "max" },
  { end: "watermarkLag", is: "watermarkLag", of: "max" },
  { end: "sourceIdleTime", is: "idle", of: "max" },
  { end: "pendingRecords", is: "pending", of: "sum" },
  { end: "records_lag_max", is: "kafkaLag", of: "max" },
  { end: "numLateRecordsDropped", is: "late", of: "sum" },
  { end: "dead_letter_records", is: "deadLetters", of: "sum" },
  { end: "commit_lag_ms", is: "commitLag", of: "max" },
];

const MOST_NAMES = 40;

/** The names among `listed` that say something of single operators. */
export function operatorNames(listed) {
  const ends = OPERATOR_METRICS.map((metric) => metric.end);
  return listed.filter((name) => ends.some((end) => lastPart(name) === end)).slice(0, MOST_NAMES);
}

/** Rows of `{operator, emitLag, pending, ...}` from a vertex' aggregated metrics. */
export function operatorRows(metrics) {
  const rows = new Map();
  for (const [name, value] of metrics) {
    const metric = OPERATOR_METRICS.find(({ end }) => lastPart(name) === end);
    if (!metric) continue;
    const operator = operatorOf(name);
    const row = rows.get(operator) ?? { operator };
    const number = value[metric.of];
    // A vertex' own metric and one below a group of the same operator may both be there: the larger is shown.
    if (Number.isFinite(number)) row[metric.is] = Math.max(row[metric.is] ?? -Infinity, number);
    rows.set(operator, row);
  }
  return [...rows.values()];
}

/** A map of name to `{min, max, avg, sum, skew}` from an aggregated answer. */
export function aggregated(answer) {
  const entries = (Array.isArray(answer) ? answer : []).map((entry) => [String(entry.id), numbers(entry)]);
  return new Map(entries);
}

/** "Source__clicks" -> "Source: clicks". */
export function shownOperator(name) {
  return name.replace(/^(Source|Sink)__/, "$1: ").replaceAll("__", " ");
}

function numbers(entry) {
  const made = {};
  for (const key of ["min", "max", "avg", "sum", "skew"]) {
    const value = Number(entry[key]);
    if (entry[key] !== null && entry[key] !== undefined && Number.isFinite(value)) made[key] = value;
  }
  return made;
}

function operatorOf(name) {
  const parts = name.split(".");
  return parts.length > 1 ? parts[0] : "";
}

function lastPart(name) {
  return name.slice(name.lastIndexOf(".") + 1);
}
