/** Pages by the part of the address after `#`: "#/job/<id>/overview/<vertex>" is its parts, decoded. */

import { useEffect, useState } from "./html.js";

function currentRoute() {
  return location.hash
    .replace(/^#\/?/, "")
    .split("/")
    .filter((part) => part !== "")
    .map(decoded);
}

/** The address of a page. */
export function link(...parts) {
  return `#/${parts.map((part) => encodeURIComponent(String(part))).join("/")}`;
}

export function go(...parts) {
  location.hash = link(...parts);
}

export function useRoute() {
  const [route, setRoute] = useState(currentRoute);
  useEffect(() => {
    const moved = () => setRoute(currentRoute());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return route;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
