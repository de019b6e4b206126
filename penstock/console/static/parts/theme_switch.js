/** Light, dark, or as the system has it. */

import { html, useEffect, useState } from "../html.js";
import { chooseTheme, chosenTheme, onTheme } from "../theme.js";

const NEXT = { system: "light", light: "dark", dark: "system" };
const SIGN = { system: "◐", light: "☀", dark: "☾" };

export function ThemeSwitch() {
  const [theme, setTheme] = useState(chosenTheme);
  useEffect(() => onTheme(() => setTheme(chosenTheme())), []);
  return html`<button type="button" class="quiet" onClick=${() => chooseTheme(NEXT[theme])}
    aria-label="Colours: ${theme}. Press for ${NEXT[theme]}." title="Colours: ${theme}">
    <span aria-hidden="true">${SIGN[theme]}</span>
  </button>`;
}
