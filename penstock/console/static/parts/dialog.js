/** A modal dialog: the browser's own, which keeps the focus inside and closes by Escape. */

import { html, useEffect, useId, useRef } from "../html.js";

export function Dialog({ title, onClose, children }) {
  const element = useRef(null);
  const heading = useId();
  useEffect(() => {
    const dialog = element.current;
    if (!dialog.open) dialog.showModal();
    return () => dialog.open && dialog.close();
  }, []);
  return html`<dialog ref=${element} aria-labelledby=${heading} onClose=${onClose}>
    <h2 id=${heading}>${title}</h2>
    ${children}
  </dialog>`;
}
