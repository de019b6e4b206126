/** Why, in a few sentences, on the job's overview; its own page tells more. */

import { html } from "../html.js";
import { toldWhy } from "../model/told.js";
import { whyWords } from "../model/why_words.js";
import { Panel } from "../parts/bits.js";
import { usePoll } from "../rest/feed.js";
import { link } from "../router.js";

export function WhyPanel({ id }) {
  const told = usePoll((signal) => toldWhy(id, signal), [id]);
  if (!told.data) return null;
  const said = whyWords(told.data);
  const more = html`<a class="quiet" href=${link("job", id, "why")}>More</a>`;
  return html`<${Panel} title="Why" aside=${more}>
    ${
      said.length
        ? html`<ul class="reasons">
          ${said.map(({ text, mood }) => html`<li key=${text} class="answer ${mood === "warn" ? "warn" : ""}"><bdi>${text}</bdi></li>`)}
        </ul>`
        : html`<p class="answer">Nothing holds the job back.</p>`
    }
  <//>`;
}
