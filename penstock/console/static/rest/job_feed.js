/** The feed of one job, shared by all pages that show it, with what it said over the last minutes. */

import { aggregated, operatorNames, VERTEX_METRICS } from "../model/metrics.js";
import { earlier } from "../model/rates.js";
import { Series } from "../model/series.js";
import { lookAt } from "../model/snapshot.js";
import { over } from "../model/states.js";
import { StillWatch } from "../model/still.js";
import { Feed } from "./feed.js";
import { getJson, getting, ifThere, path } from "./client.js";

const feeds = new Map();
const NAMES_EVERY = 10;
const SLOW_WHEN_OVER = 5;

/** The same feed for the same job, for as long as the page is open. */
export function jobFeed(id) {
  if (!feeds.has(id)) feeds.set(id, new JobFeed(id));
  return feeds.get(id);
}

class JobFeed extends Feed {
  #names = new Map();
  #looks = 0;

  constructor(id) {
    super(
      (signal) => this.#look(signal),
      (data) => (data && over(data.job.state) ? SLOW_WHEN_OVER : 1),
    );
    this.id = id;
    this.series = new Series();
    this.still = new StillWatch();
  }

  async #look(signal) {
    const job = await getJson(path("jobs", this.id), signal);
    if (this.#looks === 0) await this.#recall(job, signal);
    const ids = (job.vertices ?? []).map((vertex) => vertex.id);
    const answers = await Promise.all(ids.map((vertex) => this.#vertex(vertex, signal)));
    this.#looks += 1;
    const look = lookAt(job, new Map(ids.map((vertex, at) => [vertex, answers[at]])), this.state.data);
    this.still.see(look);
    this.#remember(look);
    return look;
  }

  async #vertex(vertex, signal) {
    const place = ["jobs", this.id, "vertices", vertex];
    const names = [...VERTEX_METRICS, ...(await this.#operatorNames(vertex, signal))];
    const [metrics, watermarks] = await Promise.all([
      ifThere(getJson(path(...place, "subtasks", "metrics") + getting(names), signal)),
      ifThere(getJson(path(...place, "watermarks"), signal)),
    ]);
    return { metrics: aggregated(metrics), watermarks: Array.isArray(watermarks) ? watermarks : [] };
  }

  /** Listed now and then, because operators register metrics when they start. */
  async #operatorNames(vertex, signal) {
    if (this.#looks % NAMES_EVERY === 0 || !this.#names.has(vertex)) {
      const listed = await ifThere(getJson(path("jobs", this.id, "vertices", vertex, "subtasks", "metrics"), signal));
      const names = Array.isArray(listed) ? listed.map((entry) => String(entry.id)) : [];
      this.#names.set(vertex, operatorNames(names));
    }
    return this.#names.get(vertex);
  }

  /** The minutes before the page was opened, where the driver or the archive has kept them. */
  async #recall(job, signal) {
    const kept = await ifThere(getJson(path("jobs", this.id, "penstock", "rates"), signal));
    for (const moment of earlier(job, kept)) this.series.push(moment.at, moment.values);
  }

  #remember(look) {
    if (over(look.job.state)) return;
    const values = { in: look.flow.rateIn, out: look.flow.rateOut, lag: look.flow.lag };
    for (const vertex of look.vertices) {
      values[`${vertex.id} in`] = vertex.rateIn;
      values[`${vertex.id} out`] = vertex.rateOut;
      values[`${vertex.id} busy`] = vertex.busy;
      values[`${vertex.id} backpressured`] = vertex.backpressured;
      values[`${vertex.id} idle`] = vertex.idle;
      values[`${vertex.id} lag`] = vertex.lag;
    }
    this.series.push(look.now, values);
  }
}
