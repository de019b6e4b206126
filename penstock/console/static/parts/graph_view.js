/** The job's graph: steps as links to their drawer, edges with how records are shipped. */

import { percent, rate } from "../format/numbers.js";
import { duration, watermarkText } from "../format/time.js";
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { curve, laidOut, NODE } from "../model/layout.js";
import { mood } from "../model/states.js";
import { link } from "../router.js";
import { LoadBar } from "./load_bar.js";

const NARROW = 700;
const SMALLEST = 0.62;
const WAITING = 0.3;
const HOT = 0.8;

export function GraphView({ job, look, chosen }) {
  const place = useRef(null);
  const width = useWidth(place);
  const direction = width < NARROW ? "TB" : "LR";
  const shape = look.vertices.map((vertex) => [vertex.id, ...vertex.inputs.flatMap((i) => [i.id, i.ship_strategy])]);
  const plan = useMemo(() => laidOut(look.vertices, direction), [JSON.stringify(shape), direction]);
  const scale = width ? Math.min(1, Math.max(SMALLEST, (width - 2) / plan.width)) : 1;
  const byId = new Map(look.vertices.map((vertex) => [vertex.id, vertex]));
  const size = { width: `${plan.width * scale}px`, height: `${plan.height * scale}px` };
  const zoom = { width: `${plan.width}px`, height: `${plan.height}px`, transform: `scale(${scale})` };
  return html`<div class="graph" ref=${place} tabindex="0" role="region" aria-label="Graph of the job's steps">
    <div class="graph-size" style=${size}>
      <div class="graph-zoom" style=${zoom}>
        <${Edges} plan=${plan} byId=${byId} />
        <ul class="nodes" aria-label="Steps">
          ${plan.nodes.map(
            (node) => html`<${Node} key=${node.id} ...${{ job, node, vertex: byId.get(node.id) }}
              chosen=${chosen === node.id} />`,
          )}
        </ul>
      </div>
    </div>
  </div>`;
}

function Edges({ plan, byId }) {
  return html`<svg class="edges" width=${plan.width} height=${plan.height} aria-hidden="true">
    <defs>
      <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
        <path class="arrow-head" d="M0,0.5 L8,4 L0,7.5 z" />
      </marker>
    </defs>
    ${plan.edges.map(
      (
        edge,
      ) => html`<g key=${edge.key} class=${(byId.get(edge.from)?.backpressured ?? 0) > WAITING ? "edge held" : "edge"}>
        <path class="line" d=${curve(edge.points)} marker-end="url(#arrow)" />
        <rect class="label-back" x=${edge.at.x - edge.label.length * 3.4 - 5} y=${edge.at.y - 8.5}
          width=${edge.label.length * 6.8 + 10} height="17" rx="8" />
        <text class="label" x=${edge.at.x} y=${edge.at.y + 3.5} text-anchor="middle">${edge.label}</text>
      </g>`,
    )}
  </svg>`;
}

function Node({ job, node, vertex, chosen }) {
  const place = {
    left: `${node.x - NODE.width / 2}px`,
    top: `${node.y - NODE.height / 2}px`,
    width: `${NODE.width}px`,
    height: `${NODE.height}px`,
  };
  const heat = vertex.busy >= HOT ? "hot" : vertex.backpressured > WAITING ? "waiting" : mood(vertex.status);
  return html`<li style=${place}>
    <a class="node ${heat}" href=${link("job", job, "overview", vertex.id)} aria-current=${chosen ? "true" : undefined}
      title=${vertex.description}>
      <span class="node-name"><bdi>${vertex.name}</bdi></span>
      <${LoadBar} busy=${vertex.busy} backpressured=${vertex.backpressured} />
      <span class="node-line">
        <span>busy <b>${percent(vertex.busy)}</b></span>
        <span>backpr. <b>${percent(vertex.backpressured)}</b></span>
        <span title="parallelism">×${vertex.parallelism}</span>
      </span>
      <span class="node-line">
        ${(vertex.rateIn || !vertex.isSource) && html`<span>in <b>${rate(vertex.rateIn)}</b></span>`}
        ${(vertex.rateOut || !vertex.isSink) && html`<span>out <b>${rate(vertex.rateOut)}</b></span>`}
      </span>
      <span class="node-line quiet" title="lowest watermark: ${watermarkText(vertex.watermark)}">
        ${
          vertex.lag === undefined
            ? html`<span>watermark ${shortWatermark(vertex.watermark)}</span>`
            : html`<span>watermark <b>${duration(vertex.lag)}</b> behind</span>`
        }
      </span>
    </a>
  </li>`;
}

function shortWatermark(value) {
  return value === undefined ? "–" : watermarkText(value);
}

function useWidth(place) {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(place.current?.clientWidth ?? 0));
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  return width;
}
