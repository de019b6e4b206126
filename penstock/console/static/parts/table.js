/** A table that is a table: with a caption for who does not see it, sorted by the heading that was pressed. */

import { html, useState } from "../html.js";

/**
 * `columns`: `{name, of(row) -> what is shown, by(row)? -> what it is sorted by, right?, wide?}`; `id(row)` names a
 * row. A column without `by` is not sorted by. `first` sorts at the beginning: `{name, down}`.
 */
export function Table({ caption, columns, rows, id, first, empty, rowClass }) {
  const [order, setOrder] = useState(first ?? null);
  const shown = sorted(rows, columns, order);
  return html`<div class="scroller" tabindex="0" role="region" aria-label=${caption}>
    <table>
      <caption class="unseen">${caption}</caption>
      <thead><tr>${columns.map((column) => html`<${Heading} ...${{ column, order, setOrder }} />`)}</tr></thead>
      <tbody>
        ${shown.map(
          (row) => html`<tr key=${id(row)} class=${rowClass?.(row)}>
            ${columns.map((column) => html`<td class=${look(column)}>${column.of(row)}</td>`)}
          </tr>`,
        )}
        ${shown.length === 0 && html`<tr><td class="none" colspan=${columns.length}>${empty ?? "None."}</td></tr>`}
      </tbody>
    </table>
  </div>`;
}

function Heading({ column, order, setOrder }) {
  const here = order?.name === column.name;
  if (!column.by) return html`<th scope="col" class=${look(column)}>${column.name}</th>`;
  const sort = here ? (order.down ? "descending" : "ascending") : "none";
  const press = () => setOrder({ name: column.name, down: here ? !order.down : Boolean(column.right) });
  return html`<th scope="col" class=${look(column)} aria-sort=${sort}>
    <button type="button" class="heading" onClick=${press}>
      ${column.name}<span class="arrow" aria-hidden="true">${here ? (order.down ? "↓" : "↑") : ""}</span>
    </button>
  </th>`;
}

function look(column) {
  return [column.right && "right", column.wide && "wide"].filter(Boolean).join(" ") || undefined;
}

function sorted(rows, columns, order) {
  const column = order && columns.find(({ name }) => name === order.name);
  if (!column?.by) return rows;
  const way = order.down ? -1 : 1;
  return [...rows].sort((one, other) => way * compared(column.by(one), column.by(other)));
}

/** What is unknown counts as the smallest. */
function compared(one, other) {
  if (typeof one === "string" || typeof other === "string") {
    return String(one ?? "").localeCompare(String(other ?? ""));
  }
  const [left, right] = [one ?? -Infinity, other ?? -Infinity];
  return left === right ? 0 : left < right ? -1 : 1;
}
