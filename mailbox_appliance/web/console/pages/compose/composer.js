// @ts-check
/** The editor of a message. The message is saved as a draft before it is sent, and a draft is sent only once. */
import { nameOf } from "../../accounts.js";
import { html, useLayoutEffect, useRef, useState } from "../../html.js";
import { go, guard } from "../../router.js";
import { useShared } from "../../shared.js";
import { sure } from "../../ui/dialog.js";
import { Choice, Field } from "../../ui/form.js";
import { attempt, done } from "../../ui/notices.js";
import { Title, Warnings } from "../../ui/values.js";
import { added, droppable, Files } from "./files.js";
import { Handing, Later, Preview, SaveState, whyStay } from "./handing.js";
import { isAddressed, Recipients, toldOf } from "./recipients.js";
import { leftOut, Saving } from "./saving.js";
import { Sending, sendRequest } from "./sending.js";

/** @typedef {import("./saving.js").Values} Values */

/** @param {{start: import("./start.js").Start, readdress: (query: Record<string, string>) => void}} props */
export function Composer({ start, readdress }) {
  const [values, setValues] = useState(start.values);
  const [isOpen, setOpen] = useState(/** @type {"preview" | "later" | null} */ (null));
  const [{ saving, sending }] = useState(() => made(start, readdress));
  useShared(sending.state);
  const change = (/** @type {Partial<Values>} */ changed) => {
    saving.change({ ...saving.values, ...changed });
    setValues(saving.values);
  };
  useLayoutEffect(() => {
    const end = guard(() => (saving.isMoving ? null : whyStay(sending, saving.isUnsaved)));
    return () => {
      end();
      saving.stop();
    };
  }, []);
  const send = (/** @type {string | null} */ sendAt = null, digest = "") => {
    setOpen(null);
    return ready(saving, async () => {
      await sending.send(async () => ({ ...(await request(saving, sending, sendAt)), digest }));
      if (toldOf(sending.state.value.error)["/draftId"]) await saving.check();
    });
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.repeat) return;
    event.preventDefault();
    void send();
  };
  const now = () => saving.values.files;
  const add = (/** @type {Iterable<File>} */ chosen) =>
    saving.reads(() => added(now, chosen, (one) => change({ files: [...now(), one] })));
  const close = () => setOpen(null);
  const isClosed = sending.isOpen;
  return html`
    <${Title}>${start.title}<//>
    <${Warnings} of=${start.warnings} />
    <section class="compose" aria-label="Message" onKeyDown=${onKeyDown} ...${isClosed ? {} : droppable(add)}>
      <fieldset disabled=${isClosed}>
        <${Entries} values=${values} change=${change} saving=${saving} start=${start} />
        <${Files} files=${values.files} onAdd=${add} onRemove=${(/** @type {any} */ file) => change({ files: now().filter((one) => one.id !== file.id) })} />
      </fieldset>
      <p class="kept"><${SaveState} saving=${saving} /></p>
      <${Handing} sending=${sending} accountId=${values.accountId} />
      ${
        !isClosed &&
        html`<div class="actions">
        <button type="button" onClick=${() => send()}>Send</button>
        <button type="button" class="secondary" onClick=${() => ready(saving, () => setOpen("preview"))}>Preview</button>
        <button type="button" class="secondary" onClick=${() => ready(saving, () => setOpen("later"))}>Send later</button>
        <button type="button" class="secondary outline" onClick=${() => saveNow(saving)}>Save</button>
        <button type="button" class="secondary outline" onClick=${() => discard(saving)}>Discard</button>
      </div>`
      }
    </section>
    ${isOpen === "later" && html`<${Later} onClose=${close} onChosen=${send} />`}
    ${
      isOpen === "preview" &&
      html`<${Preview} onClose=${close} onSend=${(/** @type {string} */ digest) => send(null, digest)}
      prepare=${() => request(saving, sending, null)} />`
    }`;
}

/** @param {import("./start.js").Start} start @param {(query: Record<string, string>) => void} readdress */
function made({ values, place }, readdress) {
  const saving = new Saving(values, place, ({ accountId, draftId }) =>
    readdress({ account: accountId, draft: draftId }),
  );
  const sending = new Sending(place?.draftId ?? "");
  saving.state.watch(({ kind }) => {
    const { kind: was, error } = sending.state.value;
    const wasAway = was === "refused" && /** @type {any} */ (error).status === 0;
    if (kind === "saved" && wasAway) sending.state.set({ kind: "idle" });
  });
  return { saving, sending };
}

/** Save the message with all attachments, including those still being read. @param {Saving} saving */
async function whole(saving) {
  await saving.reading;
  return saving.save();
}

/** Save the message and return the request that sends it. @param {Saving} saving @param {Sending} sending @param {string | null} sendAt */
async function request(saving, sending, sendAt) {
  const { accountId, draftId } = await whole(saving);
  sending.subject = draftId;
  return sendRequest(accountId, draftId, sendAt, String(saving.version));
}

/** Continue if the message has recipients and a subject, or the person accepts that it has none. @param {Saving} saving @param {() => unknown} then */
async function ready(saving, then) {
  const everybody = () => [...saving.values.to, ...saving.values.cc, ...saving.values.bcc];
  if (!isAddressed(everybody)) return;
  const question = {
    title: "Continue without a subject?",
    text: "The message has no subject.",
    action: "Continue",
  };
  if (saving.values.subject.trim() || (await sure(question))) await then();
}

/** @param {Saving} saving */
async function saveNow(saving) {
  await whole(saving).then(
    () => {
      const left = leftOut(saving.values);
      done(`Draft saved${left && ` without ${left}`}.`);
    },
    () => undefined, // the save status shows the error
  );
}

/** @param {Saving} saving */
async function discard(saving) {
  const question = {
    title: "Discard this message?",
    text: "The message and its saved draft are deleted permanently.",
    action: "Discard",
    danger: true,
  };
  if ((saving.version > 0 || saving.place) && !(await sure(question))) return;
  await attempt(async () => {
    clearTimeout(saving.timer);
    await saving.running?.catch(() => undefined);
    if (saving.place) await saving.leave(saving.place, true);
    saving.stop();
    go("/drafts", { account: saving.values.accountId });
  });
}

/** @param {{values: Values, change: (changed: Partial<Values>) => void, saving: Saving, start: import("./start.js").Start}} props */
function Entries({ values, change, saving, start }) {
  const [isWide, setWide] = useState(values.cc.length > 0 || values.bcc.length > 0);
  const { error } = useShared(saving.state);
  const isNew = !start.values.to.length && !start.values.text;
  const isBegun = useRef(isNew);
  // The cursor of a reply starts above the quoted text.
  const onFocus = (/** @type {any} */ event) => {
    if (!isBegun.current) event.currentTarget.setSelectionRange(0, 0);
    isBegun.current = true;
  };
  const form = /** @type {any} */ ({ values, errors: toldOf(error), set: change });
  const text = { ...form, set: (/** @type {Partial<Values>} */ changed) => change({ ...changed, html: null }) };
  const { html: formatted, text: whole } = start.values;
  return html`
    ${
      start.accounts.length > 1 &&
      html`<${Choice} label="From" value=${values.accountId} disabled=${values.replyTo !== null}
        options=${start.accounts.map((one) => [one.id, nameOf(one)])} onChoose=${(/** @type {string} */ accountId) => change({ accountId })} />`
    }
    <${Recipients} label="To" of=${form} name="to" autofocus=${isNew} />
    ${
      isWide
        ? html`<${Recipients} label="Cc" of=${form} name="cc" /><${Recipients} label="Bcc" of=${form} name="bcc" />`
        : html`<p><button type="button" class="secondary outline small" onClick=${() => setWide(true)}>Add Cc or Bcc</button></p>`
    }
    <${Field} of=${form} name="subject" label="Subject" />
    ${
      formatted !== null &&
      html`<p class="warning">${
        values.html !== null
          ? "This draft has formatting, which will be sent. If you edit the text here, the formatting is removed."
          : html`The formatting was removed because you edited the text. <button type="button" class="secondary outline small" onClick=${() => change({ text: whole, html: formatted })}>Restore the formatting</button>`
      }</p>`
    }
    <${Field} of=${text} name="text" label="Text" rows=${14} autofocus=${!isNew} onFocus=${onFocus} />`;
}
