/** Light or dark: the system's choice until the user makes another, which this browser remembers. */

const KEY = "penstock.theme";
const listeners = new Set();

/** "light", "dark", or "system". */
export function chosenTheme() {
  const kept = remembered();
  return kept === "light" || kept === "dark" ? kept : "system";
}

/** What is shown now: "light" or "dark". */
function shownTheme() {
  const chosen = chosenTheme();
  if (chosen !== "system") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function chooseTheme(theme) {
  try {
    if (theme === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // Storage may be refused (private windows): the choice then lasts as long as the page.
    unstored = theme;
  }
  apply();
}

/** Calls back at every change; returns what ends that. */
export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** A colour of the theme by its name, for what CSS cannot paint. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

let unstored = null;

function remembered() {
  try {
    return localStorage.getItem(KEY) ?? unstored;
  } catch {
    return unstored;
  }
}

function apply() {
  document.documentElement.dataset.theme = shownTheme();
  for (const listener of listeners) listener();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
apply();
