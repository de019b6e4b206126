/** Where the graph's nodes and edges go: layers from left to right, or from top to bottom where it is narrow. */

import { Graph, layout } from "../vendor/dagre.js";

export const NODE = { width: 232, height: 128 };

/** `{width, height, nodes: [{id, x, y}], edges: [{from, to, points, label, at}]}`; x and y are centres. */
export function laidOut(vertices, direction) {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: direction, nodesep: 28, ranksep: 76, edgesep: 16, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  const there = new Set(vertices.map((vertex) => vertex.id));
  for (const vertex of vertices) graph.setNode(vertex.id, { ...NODE });
  for (const vertex of vertices) {
    vertex.inputs.forEach((input, at) => {
      if (!there.has(input.id)) return;
      const label = String(input.ship_strategy ?? "");
      graph.setEdge(
        input.id,
        vertex.id,
        { label, width: 8 + label.length * 6.5, height: 16, labelpos: "c" },
        String(at),
      );
    });
  }
  layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  return {
    width,
    height,
    nodes: graph.nodes().map((id) => ({ id, x: graph.node(id).x, y: graph.node(id).y })),
    edges: graph.edges().map((edge) => drawn(edge, graph.edge(edge))),
  };
}

function drawn(edge, { points, label, x, y }) {
  return { from: edge.v, to: edge.w, key: `${edge.v} ${edge.w} ${edge.name}`, points, label, at: { x, y } };
}

/** An SVG path through the points, rounded at the inner ones. */
export function curve(points) {
  const [first, ...rest] = points;
  let path = `M${at(first)}`;
  for (let index = 0; index < rest.length - 1; index += 1) {
    const here = rest[index];
    const next = rest[index + 1];
    const end = index === rest.length - 2 ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
    path += `Q${at(here)} ${at(end)}`;
  }
  return rest.length === 1 ? `${path}L${at(rest[0])}` : path;
}

function at({ x, y }) {
  return `${x.toFixed(1)},${y.toFixed(1)}`;
}
