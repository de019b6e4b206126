/** The user's accumulators of a step. */

import { html } from "../html.js";
import { Shown } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { getJson, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";

const COLUMNS = [
  { name: "Name", of: (row) => html`<bdi>${row.name}</bdi>`, by: (row) => row.name },
  { name: "Kind", of: (row) => String(row.type ?? "") },
  { name: "Value", of: (row) => html`<code class="wrap">${String(row.value ?? "")}</code>`, wide: true },
];

export function AccumulatorsTab({ id, vertex }) {
  const feed = usePoll(
    (signal) => getJson(path("jobs", id, "vertices", vertex.id, "accumulators"), signal),
    [id, vertex.id],
  );
  return html`<${Shown} feed=${feed} missing="The server has no accumulators of this step.">
    ${(data) => html`<${Table} caption="Accumulators" columns=${COLUMNS} rows=${data["user-accumulators"] ?? []}
      id=${(row) => row.name} empty="This step has no accumulators." />`}
  <//>`;
}
