/** States of jobs and tasks, and what they mean to who looks. */

const OVER = new Set(["FINISHED", "CANCELED", "FAILED", "SUSPENDED"]);

const MOODS = {
  RUNNING: "good",
  FINISHED: "done",
  CANCELED: "done",
  SUSPENDED: "done",
  FAILED: "bad",
  FAILING: "bad",
  RESTARTING: "warn",
  CANCELLING: "warn",
  CANCELING: "warn",
  COMPLETED: "good",
  IN_PROGRESS: "wait",
};

/** Whether a job in that state changes no more. */
export function over(state) {
  return OVER.has(state);
}

/** "good", "warn", "bad", "done" or "wait". */
export function mood(state) {
  return MOODS[state] ?? "wait";
}

export function words(state) {
  return String(state ?? "unknown")
    .toLowerCase()
    .replaceAll("_", " ");
}
