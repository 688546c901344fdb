// @ts-check
/** A value that several components show. */
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

  /** Change the value and notify the watchers. @param {T} value */
  set(value) {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const watcher of [...this.watchers]) watcher(value);
  }

  /** @param {(value: T) => void} watcher @returns {() => void} stops watching */
  watch(watcher) {
    this.watchers.add(watcher);
    return () => void this.watchers.delete(watcher);
  }
}

/**
 * Return the current value, and draw the component again when it changes.
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
