// @ts-check
/** The selected messages of one page, kept across refreshes. */
import { useEffect, useRef, useState } from "../../html.js";

/** @typedef {import("./listing.js").Message} Message */
/** @param {Message[]} items of the page @param {number} page its number; a new page starts without a selection */
export function useSelection(items, page) {
  const [map, setMap] = useState(/** @type {Map<string, Message>} */ (new Map()));
  const last = useRef(/** @type {string | null} */ (null));
  useEffect(() => setMap(new Map()), [page]);
  // Selected messages are updated by a refresh, and stay selected if it moves them to the next page.
  const current = new Map([...map].map(([id, old]) => [id, items.find((one) => one.id === id) ?? old]));

  const toggle = (/** @type {Message} */ message, isRange = false) => {
    const next = new Map(current);
    const between = isRange ? range(items, last.current, message.id) : [message];
    const isOn = !current.has(message.id);
    for (const one of between) isOn ? next.set(one.id, one) : next.delete(one.id);
    last.current = message.id;
    setMap(next);
  };
  return {
    map: current,
    ids: new Set(current.keys()),
    toggle,
    toggleId: (/** @type {string | null} */ id) => {
      const found = items.find((one) => one.id === id);
      if (found) toggle(found);
    },
    toggleAll: () => {
      const isAll = items.every((one) => current.has(one.id));
      setMap(new Map(isAll ? [] : items.map((one) => [one.id, one])));
    },
    /** Deselect messages that left the folder. @param {Set<string>} gone */
    drop: (gone) => setMap((before) => new Map([...before].filter(([id]) => !gone.has(id)))),
  };
}

/** @param {Message[]} items @param {string | null} from @param {string} to */
function range(items, from, to) {
  const [one, other] = [from, to].map((id) => items.findIndex((item) => item.id === id));
  if (one === undefined || other === undefined || one < 0) return items.filter((item) => item.id === to);
  return items.slice(Math.min(one, other), Math.max(one, other) + 1);
}
