/** Where a step's time goes, by function: rows of calls, the callers above what they call. */

import { exact, percent } from "../format/numbers.js";
import { html, useId, useState } from "../html.js";
import { Absent, Moment, Shown } from "../parts/bits.js";
import { getJson, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";

const SLOWLY = () => 3;
const ROW = 20;
const DEEPEST = 60;
const NARROWEST = 0.002;
const REASONS = {
  "-1": "The step has ended.",
  "-2": "Sampling is switched off.",
  "-3": "The first samples are being taken.",
};

export function FlameTab({ id, vertex }) {
  const [kind, setKind] = useState("full");
  const field = useId();
  const place = `${path("jobs", id, "vertices", vertex.id, "flamegraph")}?type=${kind}`;
  const feed = usePoll((signal) => getJson(place, signal), [place], SLOWLY);
  return html`<p class="filter"><label for=${field}>Samples</label>
      <select id=${field} value=${kind} onChange=${(event) => setKind(event.target.value)}>
        <option value="full">all</option><option value="on_cpu">on the CPU</option><option value="off_cpu">waiting</option>
      </select></p>
    <${Shown} feed=${feed} missing="The server samples no calls of this step.">
      ${(data) =>
        data.data
          ? html`<${Flames} root=${data.data} at=${data.endTimestamp} />`
          : html`<${Absent}>${REASONS[data.endTimestamp] ?? "No samples yet."}<//>`}
    <//>`;
}

function Flames({ root, at }) {
  const [path, setPath] = useState([]);
  const top = path.reduce((node, name) => node?.children?.find((child) => child.name === name), root) ?? root;
  const bars = [];
  collect(top, 0, 1, 0, [], bars);
  const depth = Math.max(...bars.map((bar) => bar.depth)) + 1;
  return html`<p class="quiet">${exact(top.value)} samples until <${Moment} at=${at} />.
      ${path.length > 0 && html` <button type="button" class="quiet" onClick=${() => setPath([])}>Show all</button>`}</p>
    <div class="flames" style=${{ height: `${depth * ROW}px` }} role="group" aria-label="Flame graph">
      ${bars.map((bar) => {
        const share = bar.value / Math.max(1, top.value);
        const place = { left: `${bar.left * 100}%`, width: `${bar.width * 100}%`, top: `${bar.depth * ROW}px` };
        return html`<button type="button" class="flame tone-${bar.depth % 4}" key=${bar.trail.join("\n")} style=${place}
          title="${bar.name}: ${percent(share)}" onClick=${() => setPath([...path, ...bar.trail])}><bdi>${bar.name}</bdi></button>`;
      })}
    </div>`;
}

function collect(node, left, width, depth, trail, bars) {
  bars.push({ name: String(node.name), value: node.value, left, width, depth, trail });
  if (depth >= DEEPEST) return;
  let at = left;
  for (const child of node.children ?? []) {
    const share = (width * child.value) / Math.max(1, node.value);
    if (share >= NARROWEST) collect(child, at, share, depth + 1, [...trail, child.name], bars);
    at += share;
  }
}
