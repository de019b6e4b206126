/**
 * Calls to the driver, all below the page's own address.
 *
 * A refusal is a `RestError` with the server's sentences and its status; no answer is one with status 0.
 */

import { answered, unanswered } from "./connection.js";

const PATIENCE_MS = 20_000;

export class RestError extends Error {
  constructor(status, message) {
    super(message);
    this.name = "RestError";
    this.status = status;
  }

  /** The server has nothing of that kind: a panel then says so and does not fail. */
  get absent() {
    return this.status === 404 || this.status === 405 || this.status === 501;
  }
}

/** A path of the API from its parts, each of which may hold any character. */
export function path(...parts) {
  return `./${parts.map((part) => encodeURIComponent(String(part))).join("/")}`;
}

/** The query that asks for these metrics. */
export function getting(names) {
  return `?get=${names.map((name) => encodeURIComponent(name)).join(",")}`;
}

export async function getJson(address, signal) {
  return parsed(await asked(address, { signal }));
}

export async function getText(address, signal) {
  return (await asked(address, { signal })).text();
}

export async function send(method, address, body) {
  const response = await asked(address, {
    method,
    headers: { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return parsed(response);
}

/** What `load` gives, or null where the server has no such thing. */
export async function ifThere(load) {
  try {
    return await load;
  } catch (error) {
    if (error instanceof RestError && error.absent) return null;
    throw error;
  }
}

async function asked(address, options) {
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), PATIENCE_MS);
  const given = options.signal;
  const forward = () => limit.abort();
  given?.addEventListener("abort", forward);
  let response;
  try {
    response = await fetch(address, {
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      ...options,
      signal: limit.signal,
    });
  } catch (error) {
    if (given?.aborted) throw error;
    const reason = limit.signal.aborted
      ? `The driver did not answer within ${PATIENCE_MS / 1000} s.`
      : "The driver does not answer.";
    unanswered(reason);
    throw new RestError(0, reason);
  } finally {
    clearTimeout(timer);
    given?.removeEventListener("abort", forward);
  }
  answered(response.status);
  if (!response.ok) throw new RestError(response.status, await refusal(response));
  return response;
}

async function parsed(response) {
  const text = await response.text();
  if (text === "") return {};
  try {
    return JSON.parse(text);
  } catch {
    throw new RestError(response.status, "The driver's answer is not JSON.");
  }
}

async function refusal(response) {
  const text = await response.text().catch(() => "");
  try {
    const { errors } = JSON.parse(text);
    if (Array.isArray(errors) && errors.length) return errors.map(String).join("\n");
  } catch {
    // Not the shape of our errors: what came is shown as it is.
  }
  return text.slice(0, 2000) || `The driver answered ${response.status}.`;
}
