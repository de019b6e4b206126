/** Any metrics of a step, chosen by name, as lines over the time they are looked at. */

import { count } from "../format/numbers.js";
import { html, useEffect, useId, useMemo, useRef, useState } from "../html.js";
import { Series } from "../model/series.js";
import { Absent, Shown } from "../parts/bits.js";
import { Chart } from "../parts/chart.js";
import { getJson, getting, path } from "../rest/client.js";
import { usePoll } from "../rest/feed.js";

const SLOWLY = () => 5;
const MOST = 6;

export function MetricsTab({ id, vertex }) {
  const place = path("jobs", id, "vertices", vertex.id, "metrics");
  const names = usePoll((signal) => getJson(place, signal), [place], SLOWLY);
  return html`<${Shown} feed=${names} missing="The server has no metrics of this step.">
    ${(listed) =>
      listed.length
        ? html`<${Chosen} place=${place} names=${listed.map((entry) => String(entry.id)).sort()} />`
        : html`<${Absent}>This step has no metrics.<//>`}
  <//>`;
}

function Chosen({ place, names }) {
  const [chosen, setChosen] = useState(() => usual(names));
  const [find, setFind] = useState("");
  const field = useId();
  const matching = names.filter((name) => name.toLowerCase().includes(find.trim().toLowerCase()));
  const toggle = (name) =>
    setChosen(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name].slice(-MOST));
  return html`${
    chosen.length ? html`<${Lines} place=${place} chosen=${chosen} />` : html`<${Absent}>Choose a metric below.<//>`
  }
    <p class="filter"><label for=${field}>Find a metric</label>
      <input id=${field} type="search" value=${find} onInput=${(event) => setFind(event.target.value)} />
      <span class="quiet" role="status">${matching.length} of ${names.length}; up to ${MOST} at once</span></p>
    <ul class="choices" aria-label="Metrics">
      ${matching.slice(0, 200).map(
        (name) => html`<li key=${name}><label class="check">
          <input type="checkbox" checked=${chosen.includes(name)} onChange=${() => toggle(name)} /> <bdi>${name}</bdi>
        </label></li>`,
      )}
    </ul>`;
}

function Lines({ place, chosen }) {
  const series = useRef(null);
  series.current ??= new Series();
  const feed = usePoll((signal) => getJson(place + getting(chosen), signal), [place, chosen.join("\n")]);
  const [seen, setSeen] = useState(0);
  useEffect(() => {
    if (!feed.data) return;
    series.current.push(feed.at, Object.fromEntries(feed.data.map((entry) => [String(entry.id), Number(entry.value)])));
    setSeen(feed.at);
  }, [feed.at]);
  const data = useMemo(() => series.current.columns(chosen), [seen, chosen]);
  return html`<${Chart} label="Chosen metrics" as=${count} data=${data} zero=${false} points
    lines=${chosen.map((name) => ({ name }))} />`;
}

function usual(names) {
  const first =
    names.find((name) => name.endsWith(".numRecordsInPerSecond")) ?? names.find((name) => /PerSecond$/.test(name));
  return first ? [first] : [];
}
