/** One job: how it is in one line, what can be asked of it, and its pages. */

import { bytes, exact, percent, rate } from "../format/numbers.js";
import { duration } from "../format/time.js";
import { html } from "../html.js";
import { over } from "../model/states.js";
import { bottleneck, verdict } from "../model/why.js";
import { Badge, Fact, Shown } from "../parts/bits.js";
import { Tabs } from "../parts/tabs.js";
import { getJson, ifThere, path } from "../rest/client.js";
import { useFeed, usePoll } from "../rest/feed.js";
import { jobFeed } from "../rest/job_feed.js";
import { link } from "../router.js";
import { Actions } from "./actions.js";
import { CheckpointsPage } from "./checkpoints.js";
import { ConfigurationPage } from "./configuration.js";
import { EventsPage } from "./events.js";
import { ExceptionsPage } from "./exceptions.js";
import { OverviewPage } from "./overview.js";
import { StatePage } from "./state.js";
import { TimelinePage } from "./timeline.js";
import { WhyPage } from "./why.js";

const PAGES = [
  ["overview", "Overview", OverviewPage],
  ["why", "Why", WhyPage],
  ["checkpoints", "Checkpoints", CheckpointsPage],
  ["state", "State", StatePage],
  ["exceptions", "Exceptions", ExceptionsPage],
  ["timeline", "Timeline", TimelinePage],
  ["events", "Events", EventsPage],
  ["configuration", "Configuration", ConfigurationPage],
];

const SNAPSHOTS = ["checkpoints", "state"];

export function JobPage({ id, route, features }) {
  const feed = jobFeed(id);
  const state = useFeed(feed);
  const checkpoints = usePoll(
    (signal) => ifThere(getJson(path("jobs", id, "checkpoints"), signal)),
    [id],
    (data) => (data === null ? 10 : 1),
  );
  const [open = "overview", ...rest] = route;
  const [, , Page = OverviewPage] = PAGES.find(([name]) => name === open) ?? [];
  return html`<${Shown} feed=${state} missing="This server knows no such job; it may have been forgotten.">
    ${(look) => html`
      <${JobHead} ...${{ id, look, feed, features }} checkpoints=${checkpoints.data} />
      <${Tabs} label="Pages of the job" tabs=${tabs(id, open, look)} />
      <${Page} key=${open} ...${{ id, look, feed, checkpoints }} route=${rest} />
    `}
  <//>`;
}

function tabs(id, open, look) {
  const batch = look.job["job-type"] === "BATCH";
  return PAGES.filter(([name]) => !(batch && SNAPSHOTS.includes(name))).map(([page, name]) => ({
    name,
    href: link("job", id, page),
    open: page === open,
  }));
}

function JobHead({ id, look, feed, features, checkpoints }) {
  const { job } = look;
  const found = verdict(look, feed.still, checkpoints);
  return html`<header class="job-head">
    <div class="job-title">
      <h1><bdi>${job.name || "(no name)"}</bdi></h1>
      <${Badge} state=${job.state} />
      <p class="verdict ${found.mood}" role="status">
        ${found.page ? html`<a href=${link("job", id, found.page)}>${found.text}</a>` : found.text}
      </p>
    </div>
    <${Actions} id=${id} look=${look} features=${features} />
    <${Figures} ...${{ look, checkpoints }} />
  </header>`;
}

function Figures({ look, checkpoints }) {
  const { job, flow } = look;
  const { step, busiest } = bottleneck(look);
  const worst = step ?? busiest;
  const newest = checkpoints?.latest?.completed;
  return html`<dl class="facts">
    <${Fact} name=${over(job.state) ? "Ran for" : "Up for"}>${duration(job.duration)}<//>
    <${Fact} name="Records in">${rate(flow.rateIn)}<//>
    <${Fact} name="Records out">${rate(flow.rateOut)}<//>
    <${Fact} name="Event time behind">${duration(flow.lag)}<//>
    <${Fact} name="Late records">${exact(flow.late)}<//>
    <${Fact} name=${step ? "Bottleneck" : "Busiest step"} title=${worst?.name}>
      ${worst ? html`${percent(worst.busy)} <small><bdi>${worst.name}</bdi></small>` : "–"}
    <//>
    <${Fact} name="Last checkpoint">
      ${
        newest
          ? html`${duration(look.now - newest.latest_ack_timestamp)} ago${" "}
            <small>${duration(newest.end_to_end_duration)}, ${bytes(newest.checkpointed_size)}</small>`
          : "–"
      }
    <//>
  </dl>`;
}
