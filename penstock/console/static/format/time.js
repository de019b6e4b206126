/** Moments and durations in milliseconds, as people read them. */

import { known, NONE } from "./numbers.js";

const NO_WATERMARK = -9223372036854775808n;
const LAST_WATERMARK = 9223372036854775807n;

/** 93784000 -> "1 d 2 h"; two parts at most. */
export function duration(ms) {
  if (!known(ms) || Number(ms) < 0) return NONE;
  const value = Number(ms);
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60_000) return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)} s`;
  const parts = [
    [86_400_000, "d"],
    [3_600_000, "h"],
    [60_000, "min"],
    [1000, "s"],
  ];
  const first = parts.findIndex(([size]) => value >= size);
  const shown = [];
  let rest = value;
  for (const [size, unit] of parts.slice(first, first + 2)) {
    shown.push(`${Math.floor(rest / size)} ${unit}`);
    rest %= size;
  }
  return shown.join(" ");
}

/** A moment with its day. */
export function moment(ms) {
  if (!known(ms) || Number(ms) <= 0) return NONE;
  const at = new Date(Number(ms));
  if (Number.isNaN(at.getTime())) return NONE;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}

/** Only the time of day. */
export function clock(ms) {
  if (!known(ms) || Number(ms) <= 0) return NONE;
  const at = new Date(Number(ms));
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** For `datetime` of a <time>. */
export function machine(ms) {
  const at = new Date(Number(ms));
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

/** A watermark as the server writes it: a number, or null for none yet, or Infinity for the end of input. */
export function watermark(text) {
  let value;
  try {
    value = BigInt(text);
  } catch {
    return null;
  }
  if (value <= NO_WATERMARK + 86_400_000n) return null;
  // Sources at their end send the largest number; operators may have taken a little off it.
  return value >= LAST_WATERMARK - 86_400_000n ? Infinity : Number(value);
}

export function watermarkText(value) {
  if (value === null || value === undefined) return "none yet";
  return value === Infinity ? "end of input" : moment(value);
}

function two(number) {
  return String(number).padStart(2, "0");
}
