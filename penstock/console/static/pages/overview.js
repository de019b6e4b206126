/** The job at a glance: graph, rates of the last minutes, its steps in a table, and the drawer of one. */

import { bytes, count, exact, percent, rate } from "../format/numbers.js";
import { clock, duration, watermarkText } from "../format/time.js";
import { html, useMemo } from "../html.js";
import { Absent, Badge, Panel } from "../parts/bits.js";
import { Chart } from "../parts/chart.js";
import { GraphView } from "../parts/graph_view.js";
import { LoadBar } from "../parts/load_bar.js";
import { Table } from "../parts/table.js";
import { link } from "../router.js";
import { Freshness } from "./freshness.js";
import { VertexDrawer } from "./vertex.js";
import { WhyPanel } from "./why_panel.js";

export function OverviewPage({ id, look, feed, route }) {
  const [chosen, tab] = route;
  const vertex = look.vertices.find((one) => one.id === chosen);
  return html`${
    look.vertices.length
      ? html`<${GraphView} job=${id} look=${look} chosen=${chosen} />`
      : html`<${Absent}>The job has no steps yet.<//>`
  }
    ${vertex && html`<${VertexDrawer} key=${vertex.id} ...${{ id, look, vertex, tab, feed }} />`}
    <${WhyPanel} id=${id} />
    <${Rates} look=${look} series=${feed.series} />
    <${Panel} title="Steps"><${Steps} id=${id} look=${look} chosen=${chosen} /><//>
    <${Freshness} look=${look} />`;
}

function Rates({ look, series }) {
  const data = useMemo(() => series.columns(["in", "out"]), [look]);
  const lag = useMemo(() => series.columns(["lag"]), [look]);
  const work = useMemo(() => series.columns(look.vertices.map((vertex) => `${vertex.id} busy`)), [look]);
  const steps = look.vertices.slice(0, 6).map((vertex) => ({ name: short(vertex.name) }));
  return html`<div class="charts">
    <${Panel} title="Records a second">
      <${Chart} label="Records a second over the last minutes" as=${rate} data=${data}
        lines=${[{ name: "in" }, { name: "out" }]} />
    <//>
    <${Panel} title="Event time behind">
      <${Chart} label="How far the lowest watermark is behind" as=${duration} data=${lag} lines=${[{ name: "lowest watermark" }]} />
    <//>
    <${Panel} title="Busy">
      <${Chart} label="Share of time that steps are busy" as=${percent} data=${work.slice(0, 7)} lines=${distinct(steps)} />
    <//>
  </div>`;
}

function short(name) {
  return name.length > 28 ? `${name.slice(0, 27)}…` : name;
}

/** Lines are told apart by name: equal ones get a number. */
function distinct(lines) {
  const seen = new Map();
  return lines.map((line) => {
    const times = (seen.get(line.name) ?? 0) + 1;
    seen.set(line.name, times);
    return times === 1 ? line : { ...line, name: `${line.name} (${times})` };
  });
}

function Watermark({ value }) {
  if (value === undefined) return "–";
  const short = Number.isFinite(value) && value !== null ? clock(value) : watermarkText(value);
  return html`<span title=${watermarkText(value)}>${short}</span>`;
}

function Steps({ id, look, chosen }) {
  const columns = [
    {
      name: "Step",
      of: (vertex) => html`<a href=${link("job", id, "overview", vertex.id)}><bdi>${vertex.name}</bdi></a>`,
      by: (vertex) => vertex.name,
      wide: true,
    },
    { name: "State", of: (vertex) => html`<${Badge} state=${vertex.status} />`, by: (vertex) => vertex.status },
    { name: "Subtasks", of: (vertex) => exact(vertex.parallelism), by: (vertex) => vertex.parallelism, right: true },
    { name: "Load", of: (vertex) => html`<${LoadBar} ...${vertex} />` },
    { name: "Busy", of: (vertex) => percent(vertex.busy), by: (vertex) => vertex.busy, right: true },
    {
      name: "Backpr.",
      of: (vertex) => percent(vertex.backpressured),
      by: (vertex) => vertex.backpressured,
      right: true,
    },
    { name: "In", of: (vertex) => rate(vertex.rateIn), by: (vertex) => vertex.rateIn, right: true },
    { name: "Out", of: (vertex) => rate(vertex.rateOut), by: (vertex) => vertex.rateOut, right: true },
    {
      name: "Received",
      of: (vertex) => count(vertex.totals["read-records"]),
      by: (vertex) => vertex.totals["read-records"],
      right: true,
    },
    {
      name: "Sent",
      of: (vertex) => count(vertex.totals["write-records"]),
      by: (vertex) => vertex.totals["write-records"],
      right: true,
    },
    {
      name: "Bytes in",
      of: (vertex) => bytes(vertex.totals["read-bytes"]),
      by: (vertex) => vertex.totals["read-bytes"],
      right: true,
    },
    {
      name: "Bytes out",
      of: (vertex) => bytes(vertex.totals["write-bytes"]),
      by: (vertex) => vertex.totals["write-bytes"],
      right: true,
    },
    {
      name: "Watermark",
      of: (vertex) => html`<${Watermark} value=${vertex.watermark} />`,
      by: (vertex) => vertex.watermark,
    },
  ];
  return html`<${Table} caption="Steps of the job" columns=${columns} rows=${look.vertices} id=${(vertex) => vertex.id}
    rowClass=${(vertex) => (vertex.id === chosen ? "chosen" : undefined)} />`;
}
