/** The page: its head, its banner, and whichever page the address names. */

import { html, render, useEffect, useErrorBoundary } from "./html.js";
import { Failure } from "./parts/bits.js";
import { Banner } from "./parts/banner.js";
import { ThemeSwitch } from "./parts/theme_switch.js";
import { DriverPage } from "./pages/driver.js";
import { ExecutorPage, ExecutorsPage } from "./pages/executors.js";
import { JobPage } from "./pages/job.js";
import { JobsPage } from "./pages/jobs.js";
import { getJson } from "./rest/client.js";
import { setRefreshInterval, usePoll } from "./rest/feed.js";
import { link, useRoute } from "./router.js";

const RARELY = () => 10;

function App() {
  const route = useRoute();
  const config = usePoll((signal) => getJson("./config", signal), [], RARELY);
  if (config.data) setRefreshInterval(config.data["refresh-interval"]);
  return html`<a class="skip" href=${location.hash || "#/"} onClick=${skip}>Skip to the content</a>
    <${Head} route=${route} config=${config.data} />
    <${Banner} />
    <main id="content" tabindex="-1">
      <${Guarded} key=${route.slice(0, 3).join("/")} route=${route} features=${config.data?.features} />
    </main>`;
}

/** Ours, where the server says it; else that of the REST it speaks. */
function version(config) {
  const ours = /^penstock-(.+)$/.exec(config?.["flink-revision"] ?? "")?.[1];
  return ours ?? (config?.["flink-version"] && `REST ${config["flink-version"]}`);
}

/** Below the list of all jobs, "Jobs" leads back to it; the list itself has no driver. */
function Head({ route, config }) {
  const home = config?.["penstock-up"] === true ? "../../#/" : link("jobs");
  const open = (name) =>
    route[0] === name || (name === "jobs" && (!route.length || route[0] === "job")) ? "page" : undefined;
  return html`<header class="head">
    <a class="brand" href=${home}><img src="./favicon.svg" alt="" width="22" height="22" /> Penstock</a>
    <nav aria-label="Main">
      <ul>
        <li><a href=${home} aria-current=${open("jobs")}>Jobs</a></li>
        ${
          config?.["penstock-list"] !== true &&
          html`<li><a href=${link("driver")} aria-current=${open("driver")}>Driver</a></li>
            <li><a href=${link("executors")} aria-current=${open("executors")}>Executors</a></li>`
        }
      </ul>
    </nav>
    ${config?.["penstock-archived"] === true && html`<span class="badge done">archive</span>`}
    <span class="version quiet">${version(config)}</span>
    <${ThemeSwitch} />
  </header>`;
}

/** A page that breaks says so in its place; the others still open. */
function Guarded({ route, features }) {
  const [error] = useErrorBoundary((broken) => console.error(broken));
  useTitle(route);
  if (error) return html`<${Failure} error=${new Error(`This page broke: ${error.message}`)} />`;
  return page(route, features);
}

function page(route, features) {
  const [first, second, ...rest] = route;
  if (!first || first === "jobs") return html`<${JobsPage} />`;
  if (first === "job" && second) return html`<${JobPage} id=${second} route=${rest} features=${features} />`;
  if (first === "driver") return html`<${DriverPage} tab=${second} />`;
  if (first === "executors" && second) return html`<${ExecutorPage} id=${second} tab=${rest[0]} />`;
  if (first === "executors") return html`<${ExecutorsPage} />`;
  return html`<h1>No such page</h1><p>Back to <a href="#/">all jobs</a>.</p>`;
}

/** A new page is announced by its title. */
function useTitle(route) {
  const name = route.filter((part) => !/^[0-9a-f]{32}$/.test(part)).join(" · ");
  useEffect(() => {
    document.title = name ? `${name} · Penstock` : "Penstock";
  }, [name]);
}

function skip(event) {
  event.preventDefault();
  document.getElementById("content").focus();
}

const place = document.getElementById("app");
place.replaceChildren();
render(html`<${App} />`, place);
