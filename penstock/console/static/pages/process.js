/** What a driver and an executor have alike: numbers, logs, output, threads. `place` is where the API has them. */

import { bytes, exact } from "../format/numbers.js";
import { html, useState } from "../html.js";
import { Absent, Moment, Shown } from "../parts/bits.js";
import { FilterTable } from "../parts/filter_table.js";
import { LogView } from "../parts/log_view.js";
import { Table } from "../parts/table.js";
import { getJson, getting, ifThere, path } from "../rest/client.js";
import { ONCE, usePoll } from "../rest/feed.js";

const MOST_METRICS = 200;
const SLOWLY = () => 5;

export function MetricsTable({ place }) {
  const feed = usePoll(
    (signal) => metrics(place, signal),
    [place.join("/")],
    () => 2,
  );
  return html`<${Shown} feed=${feed} missing="The server has no metrics of it.">
    ${(rows) => html`<${FilterTable} caption="Metrics" first="Metric" empty="It has no metrics."
      entries=${rows.map(({ id, value }) => [String(id), shown(id, value)])} />`}
  <//>`;
}

async function metrics(place, signal) {
  const names = await getJson(path(...place, "metrics"), signal);
  const asked = names.map(({ id }) => String(id)).slice(0, MOST_METRICS);
  return asked.length ? getJson(path(...place, "metrics") + getting(asked), signal) : [];
}

function shown(id, value) {
  const number = Number(value);
  if (!Number.isFinite(number)) return String(value);
  return /Memory.*(Used|Max|Committed|Total)/i.test(id) ? `${bytes(number)} (${exact(number)})` : exact(number);
}

/** The log, and the other files that lie beside it. */
export function LogsTab({ place }) {
  const [file, setFile] = useState(null);
  const list = usePoll((signal) => ifThere(getJson(path(...place, "logs"), signal)), [place.join("/")], SLOWLY);
  const columns = [
    {
      name: "File",
      of: (row) => html`<${FileButton} name=${row.name} onChosen=${setFile} />`,
      by: (row) => row.name,
      wide: true,
    },
    { name: "Size", of: (row) => bytes(row.size), by: (row) => row.size, right: true },
    { name: "Changed", of: (row) => html`<${Moment} at=${row.mtime} />`, by: (row) => row.mtime },
  ];
  return html`
    <h3>${file ?? "The log"}</h3>
    ${file && html`<p><button type="button" onClick=${() => setFile(null)}>Back to the log</button></p>`}
    <${LogView} key=${file} address=${file ? path(...place, "logs", file) : path(...place, "log")} label=${file ?? "The log"} />
    <h3>Files</h3>
    <${Shown} feed=${list} missing="The server lists no files.">
      ${(data) => html`<${Table} caption="Log files" columns=${columns} rows=${data.logs ?? []} id=${(row) => row.name} />`}
    <//>`;
}

function FileButton({ name, onChosen }) {
  return html`<button type="button" class="link" onClick=${() => onChosen(name)}><bdi>${name}</bdi></button>`;
}

export function OutputTab({ place }) {
  return html`<${LogView} address=${path(...place, "stdout")} label="Standard output" />`;
}

export function ThreadsTab({ place }) {
  const feed = usePoll((signal) => getJson(path(...place, "thread-dump"), signal), [place.join("/")], ONCE);
  const again = html`<p><button type="button" onClick=${feed.refresh}>Look again</button></p>`;
  return html`<${Shown} feed=${feed} missing="The server gives no threads of it.">
    ${(data) =>
      html`${again}${
        data.threadInfos?.length
          ? data.threadInfos.map(
              (thread, at) => html`<details class="thread" key=${at} open=${at === 0}>
              <summary><bdi>${thread.threadName}</bdi></summary><pre tabindex="0">${thread.stringifiedThreadInfo}</pre>
            </details>`,
            )
          : html`<${Absent}>No thread was seen.<//>`
      }`}
  <//>`;
}
