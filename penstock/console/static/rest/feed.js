/**
 * A value that is asked for again and again while anybody looks at it.
 *
 * A feed runs from its first subscriber to its last, one call at a time, and rests while the tab is hidden. After
 * an error it keeps what it had, says the error beside it, and goes on asking.
 */

import { useEffect, useMemo, useState } from "../html.js";

const LONGEST_MS = 15_000;
const SHORTEST_MS = 100;

let interval = 3000;

/** How often feeds ask, as the server wishes. */
export function setRefreshInterval(ms) {
  if (Number.isFinite(ms)) interval = Math.max(SHORTEST_MS, ms);
}

export function refreshInterval() {
  return interval;
}

export class Feed {
  #load;
  #slowness;
  #listeners = new Set();
  #timer = null;
  #asking = null;
  #failures = 0;

  /** `slowness(data)` says how many refresh intervals lie between two calls; Infinity asks only once. */
  constructor(load, slowness = () => 1) {
    this.#load = load;
    this.#slowness = slowness;
    this.state = { data: undefined, error: null, at: null };
  }

  subscribe(listener) {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) {
      document.addEventListener("visibilitychange", this.#wake);
      this.refresh();
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#rest();
    };
  }

  /** Ask now, instead of when it is due. */
  refresh = () => {
    clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#listeners.size && !this.#asking) this.#ask();
  };

  #rest() {
    document.removeEventListener("visibilitychange", this.#wake);
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#asking?.abort();
    this.#asking = null;
  }

  #wake = () => {
    if (document.visibilityState === "visible" && this.#timer === null) this.refresh();
  };

  async #ask() {
    const asking = new AbortController();
    this.#asking = asking;
    let next;
    try {
      next = { data: await this.#load(asking.signal), error: null, at: Date.now() };
      this.#failures = 0;
    } catch (error) {
      if (asking.signal.aborted) return;
      next = { ...this.state, error };
      this.#failures += 1;
    }
    if (asking.signal.aborted) return;
    this.#asking = null;
    this.state = next;
    this.#schedule();
    for (const listener of this.#listeners) listener(next);
  }

  #schedule() {
    if (document.visibilityState === "hidden") return;
    const slowness = this.#failures ? Math.min(this.#failures, 5) : this.#slowness(this.state.data);
    if (slowness === Infinity) return;
    this.#timer = setTimeout(this.refresh, Math.min(interval * slowness, Math.max(LONGEST_MS, interval)));
  }
}

/** A feed's state, which draws the component again when it changes. */
export function useFeed(feed) {
  const [, redraw] = useState(null);
  useEffect(() => feed.subscribe(redraw), [feed]);
  return feed.state;
}

/** A feed of the component's own, anew whenever `key` changes. */
export function usePoll(load, key, slowness) {
  const feed = useMemo(() => new Feed(load, slowness), key);
  return { ...useFeed(feed), refresh: feed.refresh };
}

/** A slowness for what never changes. */
export const ONCE = () => Infinity;
