/** How checkpoints are configured, and what they cost on the whole. */

import { bytes, exact } from "../format/numbers.js";
import { duration } from "../format/time.js";
import { html } from "../html.js";
import { words } from "../model/states.js";
import { Absent, Fact, Panel, Shown } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { getJson, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";

const SLOWLY = () => 10;
const NEVER = 2 ** 62;

const MEASURES = [
  ["end_to_end_duration", "Duration", duration],
  ["checkpointed_size", "Written", bytes],
  ["state_size", "Whole state", bytes],
  ["processed_data", "Processed while aligning", bytes],
  ["persisted_data", "In flight, kept", bytes],
];

export function CheckpointSummary({ summary }) {
  const rows = MEASURES.filter(([key]) => summary?.[key]);
  const columns = [
    { name: "Of completed ones", of: ([, name]) => name, wide: true },
    ...["min", "avg", "p50", "p95", "p99", "max"].map((part) => ({
      name: part,
      of: ([key, , as]) => as(summary[key][part]),
      right: true,
    })),
  ];
  return html`<${Panel} title="Summary">
    ${
      rows.length
        ? html`<${Table} caption="Costs of completed checkpoints" columns=${columns} rows=${rows} id=${([key]) => key} />`
        : html`<${Absent}>The server gives no summary.<//>`
    }
  <//>`;
}

export function CheckpointConfig({ id }) {
  const feed = usePoll((signal) => getJson(path("jobs", id, "checkpoints", "config"), signal), [id], SLOWLY);
  return html`<${Panel} title="Configuration" id="checkpoint-configuration">
    <${Shown} feed=${feed} missing="The server gives no configuration of checkpoints.">
      ${(config) => html`<dl class="facts">
        ${facts(config).map(([name, value]) => html`<${Fact} key=${name} name=${name}>${value}<//>`)}
      </dl>`}
    <//>
  <//>`;
}

function facts(config) {
  const yes = (value) => (value === undefined ? "–" : value ? "yes" : "no");
  return [
    ["Mode", words(config.mode)],
    ["Interval", config.interval >= NEVER ? "only when asked" : duration(config.interval)],
    ["Timeout", duration(config.timeout)],
    ["Pause between", duration(config.min_pause)],
    ["At once", exact(config.max_concurrent)],
    ["Tolerated failures", exact(config.tolerable_failed_checkpoints)],
    ["Unaligned", yes(config.unaligned_checkpoints)],
    ["Aligned timeout", duration(config.aligned_checkpoint_timeout)],
    ["State backend", config.state_backend ?? "–"],
    ["Storage", config.checkpoint_storage ?? "–"],
    ["Kept after cancel", yes(config.externalization?.enabled && !config.externalization.delete_on_cancellation)],
    ["After tasks finish", yes(config.checkpoints_after_tasks_finish)],
  ];
}
