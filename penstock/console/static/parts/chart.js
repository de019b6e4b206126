/**
 * Lines over time.
 *
 * The canvas is for the eye; the legend below it is text, with the newest value of each line, and the chart's label
 * says the same to who does not see it.
 */

import { html, useEffect, useRef, useState } from "../html.js";
import { colour, onTheme } from "../theme.js";
import uPlot from "../vendor/uPlot.js";

const HEIGHT = 148;
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400];
const PALETTE = ["line-1", "line-2", "line-3", "line-4", "line-5", "line-6"];

/** `lines`: one `{name, as?(value), colour?}` for each column of `data` after the first, which is seconds. */
export function Chart({ label, lines, data, as, zero = true, points = false, height = HEIGHT }) {
  const place = useRef(null);
  const plot = useRef(null);
  const [theme, redraw] = useState(0);
  useEffect(() => onTheme(() => redraw((times) => times + 1)), []);
  const shape = `${theme} ${height} ${lines.map((line) => line.name).join("\n")}`;
  useEffect(() => {
    const canvas = place.current;
    const made = new uPlot(options(canvas, { lines, as, zero, points, height }), data, canvas);
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: canvas.clientWidth, height }));
    watch.observe(canvas);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(data), [data]);
  const latest = lines.map((line, at) => (line.as ?? as)(newest(data[at + 1])));
  const said = lines.map((line, at) => `${line.name} ${latest[at]}`).join(", ");
  return html`<figure class="chart">
    <div class="canvas" role="img" aria-label="${label}. Newest: ${said}" ref=${place}></div>
    <figcaption>
      ${lines.map(
        (line, at) => html`<span class="legend" key=${line.name}>
          <span class="swatch ${line.colour ?? PALETTE[at % PALETTE.length]}" aria-hidden="true"></span>
          <bdi>${line.name}</bdi> <output>${latest[at]}</output>
        </span>`,
      )}
    </figcaption>
  </figure>`;
}

function newest(column) {
  for (let at = column.length - 1; at >= 0; at -= 1) if (column[at] !== null) return column[at];
  return undefined;
}

function options(place, { lines, as, zero, points, height }) {
  const axis = {
    stroke: colour("text-quiet"),
    grid: { stroke: colour("rule"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  return {
    width: place.clientWidth || 300,
    height,
    padding: [8, 26, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    scales: { y: { range: (_, low, high) => span(low, high, zero) } },
    axes: [
      { ...axis, size: 24, space: 70, incrs: STEPS_S, values: (_, ticks) => ticks.map(timeOfDay) },
      { ...axis, size: 58, space: 28, values: (_, ticks) => ticks.map((tick) => as(tick)) },
    ],
    series: [
      {},
      ...lines.map((line, at) => ({
        stroke: colour(line.colour ?? PALETTE[at % PALETTE.length]),
        width: 1.5,
        points: { show: points, size: 5 },
        spanGaps: false,
      })),
    ],
  };
}

function span(low, high, zero) {
  if (low === null || high === null) return [0, 1];
  const bottom = zero ? Math.min(0, low) : low;
  return high > bottom ? [bottom, high + (high - bottom) * 0.08] : [bottom, bottom + 1];
}

function timeOfDay(seconds) {
  const at = new Date(seconds * 1000);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}
