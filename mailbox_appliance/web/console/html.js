// @ts-check
/** Markup as tagged templates (htm over Preact): nothing here is ever read as HTML by the browser. */
import htm from "./vendor/htm.mjs";
import { h } from "./vendor/preact.mjs";

export {
  useCallback,
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "./vendor/hooks.mjs";
export { Fragment, render } from "./vendor/preact.mjs";

/** What a component gives back. @typedef {any} View */
/** @type {(strings: TemplateStringsArray, ...values: any[]) => View} */
export const html = /** @type {any} */ (htm.bind(/** @type {any} */ (h)));
