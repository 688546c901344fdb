// @ts-check
/** Markup as tagged templates (htm over Preact). The browser never parses it as HTML. */
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

/** What a component returns. @typedef {any} View */
/** @type {(strings: TemplateStringsArray, ...values: any[]) => View} */
export const html = /** @type {any} */ (htm.bind(/** @type {any} */ (h)));
