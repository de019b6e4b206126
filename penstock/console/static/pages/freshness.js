/** How old what sources read and sinks show is, and what was late or refused. */

import { count, exact } from "../format/numbers.js";
import { duration } from "../format/time.js";
import { html } from "../html.js";
import { shownOperator } from "../model/metrics.js";
import { Absent, Panel } from "../parts/bits.js";
import { Table } from "../parts/table.js";

const COLUMNS = [
  { key: "emitLag", name: "Event-time lag", as: duration },
  { key: "fetchLag", name: "Fetch lag", as: duration },
  { key: "watermarkLag", name: "Watermark lag", as: duration },
  { key: "idle", name: "Idle for", as: duration },
  { key: "pending", name: "Pending", as: count },
  { key: "kafkaLag", name: "Kafka lag", as: count },
  { key: "late", name: "Late, dropped", as: exact },
  { key: "deadLetters", name: "Dead letters", as: exact },
  { key: "commitLag", name: "Visible after", as: duration },
];

export function Freshness({ look }) {
  const rows = look.vertices.flatMap((vertex) => vertex.operators.map((row) => ({ ...row, vertex })));
  const there = COLUMNS.filter(({ key }) => rows.some((row) => row[key] !== undefined));
  const columns = [
    {
      name: "Operator",
      of: (row) => html`<bdi>${row.operator ? shownOperator(row.operator) : row.vertex.name}</bdi>`,
      wide: true,
    },
    ...there.map(({ key, name, as }) => ({ name, of: (row) => as(row[key]), by: (row) => row[key], right: true })),
  ];
  return html`<${Panel} title="Freshness and late records">
    ${
      rows.length
        ? html`<${Table} caption="Event-time lag, pending and late records by operator" columns=${columns} rows=${rows}
          id=${(row) => `${row.vertex.id} ${row.operator}`} />`
        : html`<${Absent}>No operator of this job reports lag, pending or late records.<//>`
    }
  <//>`;
}
