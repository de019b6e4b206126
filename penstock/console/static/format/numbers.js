/** Numbers as people read them: short, with their unit, and a dash for what is not there. */

export const NONE = "–";

export function known(value) {
  return value !== null && value !== undefined && value !== "" && Number.isFinite(Number(value));
}

/** 1234567 -> "1.23 M". */
export function count(value) {
  if (!known(value)) return NONE;
  return scaled(Number(value), 1000, ["", " k", " M", " G", " T"]);
}

/** Whole, with separators: for tables where every digit matters. */
export function exact(value) {
  return known(value) ? Number(value).toLocaleString("en-GB", { maximumFractionDigits: 2 }) : NONE;
}

export function rate(value) {
  return known(value) ? `${count(value)}/s` : NONE;
}

export function bytes(value) {
  if (!known(value) || Number(value) < 0) return NONE;
  return scaled(Number(value), 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
}

/** A share from 0 to 1. */
export function percent(value) {
  return known(value) ? `${Math.round(Number(value) * 100)} %` : NONE;
}

function scaled(value, base, units) {
  let rest = Math.abs(value);
  let unit = 0;
  while (rest >= base && unit < units.length - 1) {
    rest /= base;
    unit += 1;
  }
  const digits = unit === 0 ? (Number.isInteger(rest) ? 0 : 1) : rest < 10 ? 2 : rest < 100 ? 1 : 0;
  return `${value < 0 ? "−" : ""}${rest.toFixed(digits)}${units[unit]}`;
}
