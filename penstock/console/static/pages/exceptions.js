/** What went wrong: the newest error with the user's own stack, and those before it. */

import { exact } from "../format/numbers.js";
import { html } from "../html.js";
import { Absent, Fact, Moment, Panel, Shown } from "../parts/bits.js";
import { Stack } from "../parts/stack.js";
import { getJson, getting, ifThere, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";
import { link } from "../router.js";

const MOST = 50;
const RESTARTS = ["numRestarts", "fullRestarts"];

export function ExceptionsPage({ id }) {
  const feed = usePoll((signal) => getJson(`${path("jobs", id, "exceptions")}?maxExceptions=${MOST}`, signal), [id]);
  const restarts = usePoll((signal) => ifThere(getJson(path("jobs", id, "metrics") + getting(RESTARTS), signal)), [id]);
  return html`<${Shown} feed=${feed} missing="The server keeps no exceptions of this job.">
    ${(data) => html`<${History} entries=${data.exceptionHistory?.entries ?? []}
      truncated=${data.exceptionHistory?.truncated} restarts=${restartCount(restarts.data)} />`}
  <//>`;
}

function restartCount(metrics) {
  const found = Array.isArray(metrics) ? metrics.find((entry) => RESTARTS.includes(entry.id)) : undefined;
  return found?.value;
}

function History({ entries, truncated, restarts }) {
  const [newest, ...before] = entries;
  return html`<div class="panels">
    <dl class="facts">
      <${Fact} name="Failures kept">${exact(entries.length)}<//>
      <${Fact} name="Restarts">${exact(restarts)}<//>
      <${Fact} name="Newest">${newest ? html`<${Moment} at=${newest.timestamp} />` : "–"}<//>
    </dl>
    ${
      newest
        ? html`<${Panel} title="Newest failure"><${Entry} entry=${newest} /><//>`
        : html`<${Absent}>Nothing has failed.<//>`
    }
    ${
      before.length > 0 &&
      html`<${Panel} title="Before that">
      <ol class="failures" aria-label="Earlier failures, newest first">
        ${before.map(
          (entry) => html`<li key="${entry.timestamp} ${entry.taskName}">
            <details><summary><${Moment} at=${entry.timestamp} /> <b><bdi>${entry.exceptionName}</bdi></b> <bdi>${where(entry)}</bdi></summary>
              <${Entry} entry=${entry} /></details>
          </li>`,
        )}
      </ol>
      ${truncated && html`<p class="quiet">Older ones were dropped.</p>`}
    <//>`
    }
  </div>`;
}

function Entry({ entry }) {
  const { record, ...others } = entry.failureLabels ?? {};
  const labels = Object.entries(others);
  const beside = entry.concurrentExceptions ?? [];
  return html`<div class="entry">
    <h3><bdi>${entry.exceptionName}</bdi></h3>
    <dl class="facts">
      <${Fact} name="When"><${Moment} at=${entry.timestamp} /><//>
      <${Fact} name="Where"><bdi>${where(entry)}</bdi><//>
      <${Fact} name="Host">${
        entry.taskManagerId
          ? html`<a href=${link("executors", entry.taskManagerId)}><bdi>${entry.endpoint ?? entry.taskManagerId}</bdi></a>`
          : String(entry.endpoint ?? "–")
      }<//>
      ${labels.map(([name, value]) => html`<${Fact} key=${name} name=${name}><bdi>${String(value)}</bdi><//>`)}
    </dl>
    ${record !== undefined && html`<h4>The record that caused it</h4><pre class="record" tabindex="0"><bdi>${String(record)}</bdi></pre>`}
    <${Stack} text=${entry.stacktrace} />
    ${
      beside.length > 0 &&
      html`<details><summary>${beside.length} more at the same time</summary>
      ${beside.map((one, at) => html`<${Entry} key=${at} entry=${one} />`)}</details>`
    }
  </div>`;
}

function where(entry) {
  return entry.taskName ?? "the whole job";
}
