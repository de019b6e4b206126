/** The driver: its settings, numbers, logs, threads. (Flink: JobManager.) */

import { html } from "../html.js";
import { Panel, Shown } from "../parts/bits.js";
import { FilterTable } from "../parts/filter_table.js";
import { Tabs } from "../parts/tabs.js";
import { getJson, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";
import { link } from "../router.js";
import { LogsTab, MetricsTable, OutputTab, ThreadsTab } from "./process.js";

const PLACE = ["jobmanager"];
const SLOWLY = () => 10;

const TABS = [
  ["configuration", "Configuration", Settings],
  ["metrics", "Metrics", MetricsTable],
  ["logs", "Logs", LogsTab],
  ["stdout", "Output", OutputTab],
  ["threads", "Threads", ThreadsTab],
];

export function DriverPage({ tab = "configuration" }) {
  const [, name, Tab] = TABS.find(([page]) => page === tab) ?? TABS[0];
  return html`<h1>Driver</h1>
    <${Tabs} label="About the driver" tabs=${TABS.map(([page, title]) => ({ name: title, href: link("driver", page), open: page === tab }))} />
    <${Panel} title=${name} key=${tab}><${Tab} place=${PLACE} /><//>`;
}

function Settings({ place }) {
  const feed = usePoll((signal) => getJson(path(...place, "config"), signal), [], SLOWLY);
  return html`<${Shown} feed=${feed} missing="The server gives no settings of the driver.">
    ${(data) => html`<${FilterTable} caption="Settings of the driver" empty="All settings are as they come."
      entries=${data.map(({ key, value }) => [String(key), String(value)])} />`}
  <//>`;
}
