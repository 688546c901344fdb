// @ts-check
/** The dialog of the key `?`: the shortcuts of this page. */
import { html, useState } from "./html.js";
import { useShared } from "./shared.js";
import { active, isOn, useShortcuts } from "./shortcuts.js";
import { Dialog } from "./ui/dialog.js";

export function ShortcutsHelp() {
  const [isOpen, setOpen] = useState(false);
  const keys = useShared(active);
  const on = useShared(isOn);
  useShortcuts({ "?": ["Show keyboard shortcuts", () => setOpen(true)] }, []);
  if (!isOpen) return null;
  const rows = Object.entries(Object.assign({}, ...keys));
  return html`<${Dialog} title="Keyboard shortcuts" onClose=${() => setOpen(false)}>
    <dl class="keys">${rows.map(([key, [label]]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${label}</dd></div>`)}</dl>
    <label><input type="checkbox" role="switch" checked=${on} onChange=${() => isOn.set(!on)} /> Use keyboard shortcuts</label>
  <//>`;
}
