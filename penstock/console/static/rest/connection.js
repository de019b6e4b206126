/** Whether the driver answers: one fact that every call reports to and the page's banner reads. */

const listeners = new Set();
let state = { lostSince: null, signedOut: false, reason: "" };

export function connection() {
  return state;
}

/** Calls back at every change; returns what ends that. */
export function onConnection(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The driver answered, whatever it said. */
export function answered(status) {
  change({ lostSince: null, signedOut: status === 401, reason: "" });
}

/** No answer came. */
export function unanswered(reason) {
  change({ ...state, lostSince: state.lostSince ?? Date.now(), reason });
}

function change(next) {
  const same = next.lostSince === state.lostSince && next.signedOut === state.signedOut && next.reason === state.reason;
  if (same) return;
  state = next;
  for (const listener of listeners) listener();
}
