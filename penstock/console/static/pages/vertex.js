/** The drawer of one step: its subtasks, watermarks, backpressure, metrics, flame graph. */

import { html, useEffect, useRef } from "../html.js";
import { Badge } from "../parts/bits.js";
import { Tabs } from "../parts/tabs.js";
import { go, link } from "../router.js";
import { AccumulatorsTab } from "./vertex_accumulators.js";
import { FlameTab } from "./vertex_flame.js";
import { LoadTab } from "./vertex_load.js";
import { MetricsTab } from "./vertex_metrics.js";
import { SubtasksTab } from "./vertex_subtasks.js";
import { TailTab } from "./vertex_tail.js";
import { WatermarksTab } from "./vertex_watermarks.js";

const TABS = [
  ["subtasks", "Subtasks", SubtasksTab],
  ["watermarks", "Watermarks", WatermarksTab],
  ["backpressure", "Backpressure", LoadTab],
  ["metrics", "Metrics", MetricsTab],
  ["flame", "Flame graph", FlameTab],
  ["tail", "Tail", TailTab],
  ["accumulators", "Accumulators", AccumulatorsTab],
];

export function VertexDrawer({ id, look, vertex, tab = "subtasks", feed }) {
  const [, , Tab = SubtasksTab] = TABS.find(([name]) => name === tab) ?? [];
  const description = plain(vertex.description);
  const close = () => go("job", id, "overview");
  const heading = useRef(null);
  useEffect(() => heading.current?.focus(), []);
  const leave = (event) => {
    if (event.key === "Escape" && !event.defaultPrevented) close();
  };
  return html`<aside class="drawer" aria-labelledby="drawer-title" onKeyDown=${leave}>
    <header>
      <h2 id="drawer-title" tabindex="-1" ref=${heading}><bdi>${vertex.name}</bdi></h2>
      <${Badge} state=${vertex.status} />
      <a class="close" href=${link("job", id, "overview")} aria-label="Close the step's drawer">✕</a>
    </header>
    ${description !== vertex.name && html`<p class="quiet wrap">${description}</p>`}
    <${Tabs} label="About the step" tabs=${TABS.map(([page, name]) => ({
      name,
      href: link("job", id, "overview", vertex.id, page),
      open: page === tab,
    }))} />
    <${Tab} key=${tab} ...${{ id, look, vertex, feed }} />
  </aside>`;
}

/** Flink's plan writes descriptions for HTML: line breaks and escapes become text again, never elements. */
function plain(description) {
  const made = description.replace(/<br\s*\/?>/gi, "\n");
  const known = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&amp;": "&" };
  return made.replace(/&(lt|gt|quot|#39|amp);/g, (escape) => known[escape]);
}
