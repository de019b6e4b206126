/** A Python traceback with the user's own frames in front and the engine's folded away. */

import { html, useState } from "../html.js";

const FRAME = /^ +File "(.*?)", line \d+/;
const ENGINE = /[\\/](penstock|site-packages|dist-packages|pyspark|lib[\\/]python[\d.]+)[\\/]/;

export function Stack({ text }) {
  const [all, setAll] = useState(false);
  const lines = marked(text);
  const hidden = lines.filter((line) => line.engine).length;
  const own = lines.length - hidden;
  // A trace of nothing but the engine's frames is shown whole: there is nothing of the user's to look for.
  const foldable = hidden > 0 && lines.some((line) => line.frame && !line.engine) && own > 0;
  const shown = all || !foldable ? lines : lines.filter((line) => !line.engine);
  return html`<div class="stack">
    <pre tabindex="0" aria-label="Stack">${shown.map(
      (line) => html`<span class=${line.engine ? "engine" : line.frame ? "own" : undefined}>${line.text}${"\n"}</span>`,
    )}</pre>
    ${
      foldable &&
      html`<button type="button" class="quiet" aria-pressed=${String(all)} onClick=${() => setAll(!all)}>
      ${all ? "Hide the engine's frames" : `Show the engine's frames (${hidden} lines)`}
    </button>`
    }
  </div>`;
}

/** Each line, and whether it is of a frame, and of whose. */
function marked(text) {
  let inside = null;
  return String(text ?? "")
    .replace(/\n+$/, "")
    .split("\n")
    .map((line) => {
      const frame = FRAME.exec(line);
      if (frame) inside = { engine: ENGINE.test(frame[1]) };
      else if (!/^ {4}/.test(line)) inside = null;
      return { text: line, frame: Boolean(frame), engine: Boolean(inside?.engine) };
    });
}
