/** Small things that every page shows: states, moments, what is missing, what failed. */

import { machine, moment } from "../format/time.js";
import { html } from "../html.js";
import { mood, words } from "../model/states.js";
import { RestError } from "../rest/client.js";

export function Badge({ state }) {
  return html`<span class="badge ${mood(state)}">${words(state)}</span>`;
}

export function Moment({ at }) {
  return html`<time datetime=${Number(at) > 0 ? machine(at) : undefined}>${moment(at)}</time>`;
}

/** A quiet sentence where the server has nothing. */
export function Absent({ children }) {
  return html`<p class="absent">${children}</p>`;
}

/** What a feed has: its error, a word of waiting, nothing, or its children's drawing. */
export function Shown({ feed, missing, children }) {
  const { data, error } = feed;
  if (data === undefined && error instanceof RestError && error.absent) return html`<${Absent}>${missing}<//>`;
  if (data === undefined && error) return html`<${Failure} error=${error} />`;
  if (data === undefined) return html`<p class="absent" aria-busy="true">Loading.</p>`;
  if (data === null) return html`<${Absent}>${missing}<//>`;
  return html`${error && !error.absent && error.status !== 0 ? html`<${Failure} error=${error} />` : null}${children(data)}`;
}

export function Failure({ error }) {
  return html`<p class="failure" role="alert">${error.message}</p>`;
}

/** A name over its value, in a list of such. */
export function Fact({ name, children, title }) {
  return html`<div class="fact" title=${title}><dt>${name}</dt><dd>${children}</dd></div>`;
}

export function Panel({ title, id, children, aside }) {
  const heading = id ?? `panel-${title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  return html`<section class="panel" aria-labelledby=${heading}>
    <header class="panel-head"><h2 id=${heading}>${title}</h2>${aside}</header>
    ${children}
  </section>`;
}
