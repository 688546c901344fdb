// @ts-check
/** A value that several parts of the page look at. */
import { useEffect, useState } from "./html.js";

/**
 * @template T
 */
export class Shared {
  /** @param {T} value */
  constructor(value) {
    this.value = value;
    /** @type {Set<(value: T) => void>} */
    this.watchers = new Set();
  }

  /** Takes another value and tells everybody. @param {T} value */
  set(value) {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const watcher of [...this.watchers]) watcher(value);
  }

  /** @param {(value: T) => void} watcher @returns {() => void} ends it */
  watch(watcher) {
    this.watchers.add(watcher);
    return () => void this.watchers.delete(watcher);
  }
}

/**
 * The value as it is; the component is drawn anew when it changes.
 * @template T
 * @param {Shared<T>} shared
 * @returns {T}
 */
export function useShared(shared) {
  const [value, setValue] = useState(shared.value);
  useEffect(() => {
    setValue(() => shared.value);
    return shared.watch((next) => setValue(() => next));
  }, [shared]);
  return value;
}
