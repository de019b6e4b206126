/** What was seen over the last minutes: named numbers at moments, in step, the oldest forgotten. */

const KEPT_MS = 15 * 60_000;
const KEPT_POINTS = 2000;
const GAP_MS = 30_000;

export class Series {
  #times = [];
  #columns = new Map();

  /** Moments only grow; a second call for the same moment is left out. */
  push(at, values) {
    const last = this.#times[this.#times.length - 1];
    if (at <= last) return;
    // Nobody looked meanwhile: a hole in the lines says so, where a stroke would claim to know.
    if (at - last > GAP_MS) this.#append(last + 1, {});
    this.#append(at, values);
    this.#forget(at - KEPT_MS);
  }

  #append(at, values) {
    this.#times.push(at);
    for (const name of Object.keys(values)) {
      if (!this.#columns.has(name)) this.#columns.set(name, new Array(this.#times.length - 1).fill(null));
    }
    for (const [name, column] of this.#columns) column.push(number(values[name]));
  }

  /** Columns for a chart: moments in seconds, then one list for each name. */
  columns(names) {
    const none = new Array(this.#times.length).fill(null);
    return [this.#times.map((at) => at / 1000), ...names.map((name) => [...(this.#columns.get(name) ?? none)])];
  }

  #forget(before) {
    let gone = this.#times.findIndex((at) => at >= before);
    gone = Math.max(gone, this.#times.length - KEPT_POINTS, 0);
    if (gone === 0) return;
    this.#times.splice(0, gone);
    for (const column of this.#columns.values()) column.splice(0, gone);
  }
}

function number(value) {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
