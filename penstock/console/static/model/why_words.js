/** What the server says of why, as sentences: `{text, mood}` each, the gravest first. */

import { exact, percent } from "../format/numbers.js";
import { clock, duration, moment } from "../format/time.js";

const DAY_MS = 86_400_000;
const BUSY = 0.8;
const MOST_GROUPS = 2;

/** `told` is the answer of `penstock/why`; a part that is missing says nothing. */
export function whyWords(told) {
  const said = [
    ...eventTime(told),
    ...checkpoints(told),
    ...bottleneck(told),
    ...hotKeys(told),
    ...lost(told),
  ];
  return said.sort((one, other) => (other.mood === "warn") - (one.mood === "warn"));
}

/** The moment since when: the time of day, with the day if it was another. */
export function since(at, now) {
  return now - at < DAY_MS ? clock(at) : moment(at);
}

function eventTime({ watermark, stalled, now = Date.now() }) {
  if (stalled && !watermark?.because) return [{ mood: "warn", text: `Event time stands still: ${stalled}` }];
  if (!watermark) return [];
  const { still, because, holder, lag_ms: lag } = watermark;
  if (still && because) {
    return [{ mood: "warn", text: `Event time stands still since ${since(watermark.since, now)} because ${because}.` }];
  }
  if (lag === null || lag === undefined) return [];
  return [{ mood: "calm", text: `Event time moves, ${duration(lag)} behind; ${holder} is the last.` }];
}

function checkpoints({ held }) {
  return held ? [{ mood: "warn", text: `Checkpoints wait: ${held}` }] : [];
}

function bottleneck({ bottleneck: found }) {
  if (!found?.text) return [];
  const slow = found.waiting?.length > 0 && found.busy >= BUSY;
  return [{ mood: slow ? "warn" : "calm", text: found.waiting?.length ? `Bottleneck: ${found.text}` : found.text }];
}

function hotKeys({ hot_key_groups: groups }) {
  if (!Array.isArray(groups)) return [];
  return groups.slice(0, MOST_GROUPS).map(({ step, key_group: group, subtask, share, even }) => ({
    mood: "calm",
    text:
      `Key group ${exact(group)} of ${step} gets ${percent(share)} of its records, at subtask ${exact(subtask)}` +
      `${even > 0 ? `: ${times(share / even)} an even share` : ""}.`,
  }));
}

function times(factor) {
  return `${exact(Math.round(factor))} times`;
}

function lost({ freshness }) {
  const said = [];
  if (freshness?.late_dropped > 0) {
    said.push(`${exact(freshness.late_dropped)} late records were dropped${by(freshness.late_dropped_by)}.`);
  }
  if (freshness?.dead_letters > 0) {
    said.push(`${exact(freshness.dead_letters)} records could not be read${by(freshness.dead_letters_by)}.`);
  }
  if (freshness?.outputs_dropped > 0) {
    said.push(`${exact(freshness.outputs_dropped)} prepared outputs can never be committed; the log says why.`);
  }
  return said.map((text) => ({ mood: "warn", text }));
}

function by(counts) {
  const names = Object.keys(counts ?? {});
  return names.length ? `, by ${names.join(", ")}` : "";
}
