/** Text of a process: its log or output, narrowed down by a word, followed at its end. */

import { count } from "../format/numbers.js";
import { html, useEffect, useId, useRef, useState } from "../html.js";
import { getText } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";
import { Shown } from "./bits.js";

const MOST_LINES = 3000;
const SLOWLY = () => 2;

export function LogView({ address, label }) {
  const feed = usePoll((signal) => getText(address, signal), [address], SLOWLY);
  return html`<${Shown} feed=${feed} missing="This server keeps no such text.">
    ${(text) => html`<${Lines} text=${text} label=${label} />`}
  <//>`;
}

function Lines({ text, label }) {
  const [wanted, setWanted] = useState("");
  const [follow, setFollow] = useState(true);
  const field = useId();
  const end = useRef(null);
  const { lines, total } = narrowed(text, wanted);
  useEffect(() => {
    if (follow && end.current) end.current.scrollTop = end.current.scrollHeight;
  }, [text, follow, wanted]);
  return html`<div>
    <p class="filter">
      <label for=${field}>Filter</label>
      <input id=${field} type="search" value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
      <label><input type="checkbox" checked=${follow} onChange=${(event) => setFollow(event.target.checked)} /> Follow the end</label>
      <span class="quiet" role="status">${total > lines.length ? `the last ${count(lines.length)} of ` : ""}${count(total)} lines</span>
    </p>
    <pre class="log" ref=${end} tabindex="0" aria-label=${label}>${
      lines.length ? lines.map((line) => html`<span class=${level(line)}>${line}${"\n"}</span>`) : "Empty."
    }</pre>
  </div>`;
}

function narrowed(text, wanted) {
  const find = wanted.trim().toLowerCase();
  const all = text === "" ? [] : text.replace(/\n$/, "").split("\n");
  const chosen = find ? all.filter((line) => line.toLowerCase().includes(find)) : all;
  return { lines: chosen.slice(-MOST_LINES), total: chosen.length };
}

function level(line) {
  const found = /\b(ERROR|CRITICAL|WARN|WARNING)\b/.exec(line)?.[1];
  if (!found) return undefined;
  return found.startsWith("WARN") ? "log-warn" : "log-error";
}
