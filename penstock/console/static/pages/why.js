/** Why: what holds event time back, which step holds the others back, which subtasks are slow, whose share is larger. */

import { exact, percent } from "../format/numbers.js";
import { duration, watermarkText } from "../format/time.js";
import { html } from "../html.js";
import { toldWhy } from "../model/told.js";
import { bottleneck, isSkewed, skewed, watermarkHolder } from "../model/why.js";
import { Absent, Moment, Panel } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { usePoll } from "../rest/feed.js";
import { link } from "../router.js";
import { FreshnessTold } from "./freshness_told.js";
import { SlowSubtasks } from "./slow_subtasks.js";

export function WhyPage({ id, look, feed }) {
  const told = usePoll((signal) => toldWhy(id, signal), [id]);
  return html`<div class="panels">
    <${EventTime} ...${{ id, look, feed }} told=${told.data} />
    <${Checkpoints} held=${told.data?.held} />
    <${Bottleneck} ...${{ id, look }} told=${told.data} />
    <${SlowSubtasks} id=${id} look=${look} />
    <${Skew} id=${id} look=${look} told=${told.data} />
    <${FreshnessTold} id=${id} told=${told.data?.freshness} />
  </div>`;
}

function EventTime({ id, look, feed, told }) {
  const holder = watermarkHolder(look, feed.still);
  const named = told?.watermark;
  return html`<${Panel} title="What holds event time">
    ${told?.stalled && html`<p class="answer warn wrap"><bdi>${told.stalled}</bdi></p>`}
    ${
      named &&
      html`<p class="answer"><b><bdi>${named.holder}</bdi></b> holds the watermark
      ${named.since > 0 && html` since <${Moment} at=${named.since} />, for ${duration(look.now - named.since)}`}.</p>`
    }
    ${named?.because && html`<p class="quiet wrap">That is because <bdi>${named.because}</bdi>.</p>`}
    ${
      holder
        ? html`<${Lowest} ...${{ id, look, holder }} />`
        : !named && html`<${Absent}>No step of this job has a watermark.<//>`
    }
  <//>`;
}

function Checkpoints({ held }) {
  if (!held) return null;
  return html`<${Panel} title="What holds checkpoints"><p class="answer warn wrap"><bdi>${held}</bdi></p><//>`;
}

function Lowest({ id, look, holder }) {
  const stood = look.now - holder.since;
  const behind = holder.lag !== null && html`, <b>${duration(holder.lag)}</b> behind`;
  const step = html`<${StepLink} id=${id} vertex=${holder.vertex} tab="watermarks" />`;
  return html`<p class="answer">
      Lowest is subtask <b>${holder.subtask}</b> of ${step}: <b>${watermarkText(holder.value)}</b>${behind}.
    </p>
    <p class="quiet">${stood > 0 ? `It has stood there for at least ${duration(stood)}.` : "It is moving."}</p>`;
}

function Bottleneck({ id, look, told }) {
  const found = bottleneck(look);
  return html`<${Panel} title="Bottleneck">
    ${told?.bottleneck?.text && html`<p class="answer"><bdi>${told.bottleneck.text}</bdi></p>`}
    ${found.step && !told?.bottleneck?.waiting?.length && html`<${Awaited} id=${id} ...${found} />`}
    ${!found.step && found.busiest && html`<${Busiest} id=${id} vertex=${found.busiest} />`}
    ${!found.step && !found.busiest && html`<${Absent}>The server measures no busy time of this job.<//>`}
  <//>`;
}

function Awaited({ id, step, waiting }) {
  const waiters = waiting.map((vertex, at) => {
    const shown = html`<${StepLink} id=${id} vertex=${vertex} tab="backpressure" />`;
    return html`${at > 0 ? ", " : ""}${shown} (backpressured ${percent(vertex.backpressured)})`;
  });
  return html`<p class="answer">
    <${StepLink} id=${id} vertex=${step} tab="backpressure" /> is busy <b>${percent(step.busy)}</b> of the time, and ${waiters}
    ${waiting.length === 1 ? " waits" : " wait"} for it.
  </p>`;
}

function Busiest({ id, vertex }) {
  const shown = html`<${StepLink} id=${id} vertex=${vertex} tab="backpressure" />`;
  return html`<p class="answer">No step waits for another. Busiest is ${shown}, <b>${percent(vertex.busy)}</b> of the time.</p>`;
}

function Skew({ id, look, told }) {
  const rows = skewed(look);
  const columns = [
    { name: "Step", of: (row) => html`<${StepLink} id=${id} vertex=${row} tab="subtasks" />`, wide: true },
    { name: "Skew", of: (row) => `${Math.round(row.skew)} %`, by: (row) => row.skew, right: true },
    { name: "Least", of: (row) => exact(row.metrics.get("numRecordsIn")?.min), right: true },
    { name: "Mean", of: (row) => exact(Math.round(row.metrics.get("numRecordsIn")?.avg)), right: true },
    { name: "Most", of: (row) => exact(row.metrics.get("numRecordsIn")?.max), right: true },
  ];
  return html`<${Panel} title="Skew">
    <p class="quiet">Records that subtasks of a step received: 0 % is equal shares.</p>
    ${
      rows.length
        ? html`<${Table} caption="Skew of the steps" columns=${columns} rows=${rows} id=${(row) => row.id}
          rowClass=${(row) => (isSkewed(row) ? "warn" : undefined)} />`
        : html`<${Absent}>No step has several subtasks that count records.<//>`
    }
    <${HotKeys} groups=${told?.hot_key_groups} />
  <//>`;
}

function HotKeys({ groups }) {
  if (!Array.isArray(groups) || !groups.length) return null;
  const columns = [
    { name: "Hottest key groups", of: (row) => exact(row.key_group), right: true },
    { name: "Step", of: (row) => html`<bdi>${row.step}</bdi>`, wide: true },
    { name: "Subtask", of: (row) => exact(row.subtask), right: true },
    { name: "Share", of: (row) => percent(row.share), right: true },
  ];
  return html`<${Table} caption="Hottest key groups" columns=${columns} rows=${groups} id=${(row) => `${row.step} ${row.key_group}`} />`;
}

function StepLink({ id, vertex, tab }) {
  return html`<a class="step" href=${link("job", id, "overview", vertex.id, tab)}><bdi>${vertex.name}</bdi></a>`;
}
