/** How the job is configured: what its program set, and the driver's settings for it. */

import { exact } from "../format/numbers.js";
import { html } from "../html.js";
import { Fact, Panel, Shown } from "../parts/bits.js";
import { FilterTable } from "../parts/filter_table.js";
import { getJson, ifThere, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";

const SLOWLY = () => 10;

export function ConfigurationPage({ id, look }) {
  const config = usePoll((signal) => getJson(path("jobs", id, "config"), signal), [id], SLOWLY);
  const settings = usePoll((signal) => jobSettings(id, signal), [id], SLOWLY);
  return html`<div class="panels">
    <${Panel} title="The job">
      <${Shown} feed=${config} missing="The server gives no configuration of this job.">
        ${(data) => html`<${Execution} config=${data["execution-config"] ?? {}} look=${look} />`}
      <//>
    <//>
    <${Panel} title="Settings in force">
      <${Shown} feed=${settings} missing="The server gives no settings.">
        ${(data) => html`<${FilterTable} caption="Settings in force"
          entries=${data.map(({ key, value }) => [String(key), String(value)])} />`}
      <//>
    <//>
  </div>`;
}

async function jobSettings(id, signal) {
  return (
    (await ifThere(getJson(path("jobs", id, "jobmanager", "config"), signal))) ??
    ifThere(getJson(path("jobmanager", "config"), signal))
  );
}

function Execution({ config, look }) {
  const { job } = look;
  const entries = Object.entries(config["user-config"] ?? {}).map(([key, value]) => [key, String(value)]);
  return html`<dl class="facts">
      <${Fact} name="Id"><code class="wrap">${job.jid}</code><//>
      <${Fact} name="Kind">${String(job["job-type"] ?? "–").toLowerCase()}<//>
      <${Fact} name="Parallelism">${exact(config["job-parallelism"])}<//>
      <${Fact} name="Max parallelism">${exact(job.maxParallelism > 0 ? job.maxParallelism : undefined)}<//>
      <${Fact} name="Restarts"><bdi>${config["restart-strategy"] ?? "–"}</bdi><//>
      <${Fact} name="Object reuse">${config["object-reuse-mode"] ? "yes" : "no"}<//>
    </dl>
    <${FilterTable} caption="Set by the program" entries=${entries} empty="The program set nothing." />`;
}
