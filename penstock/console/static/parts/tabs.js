/** Links between the pages of one thing; the one that is open says so. */

import { html } from "../html.js";

/** `tabs`: `{name, href, open}`. */
export function Tabs({ label, tabs }) {
  return html`<nav class="tabs" aria-label=${label}>
    <ul>
      ${tabs.map(
        (tab) => html`<li key=${tab.href}>
          <a href=${tab.href} aria-current=${tab.open ? "page" : undefined}>${tab.name}</a>
        </li>`,
      )}
    </ul>
  </nav>`;
}
