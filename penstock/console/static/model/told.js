/**
 * What the server itself knows of why, and its log of events: calls beyond Flink's, in the shape pages use.
 *
 * A server has them below `penstock/`, or the parts they are made of: `watermark-holders` and `events`. A call that
 * was not there once is not asked for again until the page is loaded anew.
 */

import { getJson, ifThere, path } from "../rest/client.js";
import { watermark } from "../format/time.js";

const missing = new Set();

/** `{watermark: {holder, since}?, stalled?, held?, bottleneck?, hot_key_groups?}`, or null. */
export async function toldWhy(job, signal) {
  const told = await asked(path("jobs", job, "penstock", "why"), signal);
  if (told) return told;
  const holders = await asked(path("jobs", job, "watermark-holders"), signal);
  return holders && fromHolders(holders);
}

/** A list of `{time, kind, text}`, or null. */
export async function toldEvents(job, signal) {
  const told = await asked(path("jobs", job, "penstock", "events"), signal);
  if (told) return told;
  const events = (await asked(path("jobs", job, "events"), signal))?.events;
  return Array.isArray(events) ? events.map(({ timestamp, kind, text }) => ({ time: timestamp, kind, text })) : null;
}

/** The source that is furthest behind among those that count; its reason only while event time stands still. */
function fromHolders({ sources = [], stalled, held }) {
  const counting = sources
    .filter((source) => source.counts)
    .map((source) => ({ ...source, value: watermark(source.watermark) }))
    .filter((source) => source.value !== Infinity)
    .sort((one, other) => (one.value ?? -Infinity) - (other.value ?? -Infinity));
  const [lowest] = counting;
  const reason = stalled ? lowest?.holder : null;
  const named = lowest && [`${lowest.step}, subtask ${lowest.subtask}`, reason].filter(Boolean).join(": ");
  return {
    watermark: lowest ? { holder: named } : null,
    stalled,
    held,
  };
}

async function asked(address, signal) {
  if (missing.has(address)) return null;
  const answer = await ifThere(getJson(address, signal));
  if (answer === null) missing.add(address);
  return answer;
}
