/** The one place that binds templates to the renderer: everything in a `${}` becomes text or a property. */

import htm from "./vendor/htm.js";
import { Fragment, h, render } from "./vendor/preact.js";

export const html = htm.bind(h);
export { Fragment, render };
export {
  useCallback,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "./vendor/hooks.js";
