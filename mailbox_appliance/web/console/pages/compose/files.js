// @ts-check
/** Attachments. Files are read into memory when they are chosen, so later changes on disk have no effect. */
import * as api from "../../api.js";
import { html, useId, useRef } from "../../html.js";
import { Shared, useShared } from "../../shared.js";
import { warn } from "../../ui/notices.js";
import * as words from "../../words.js";

const MOST_BYTES = 25 * 1024 * 1024;
const UPLOADED = 1024 * 1024; // bytes above which a file is uploaded before the message, with its progress

/** The upload of a file now: the bytes sent, and its cancellation. @typedef {{sent: number, abort: AbortController}} Upload */
/** @typedef {{id: number, filename: string, mimeType: string, blob: Blob, upload: Shared<Upload | null>, contentId?: string, disposition?: string}} Attached */
let last = 0;

/** @param {Blob} blob @param {Omit<Attached, "id" | "blob" | "upload">} about @returns {Attached} */
export function attached(blob, about) {
  last += 1;
  return { ...about, id: last, blob, upload: new Shared(/** @type {Upload | null} */ (null)) };
}

/**
 * Read files as long as they fit; warn about the others.
 * @param {() => Attached[]} now the current attachments, which can change during reading
 * @param {Iterable<File>} chosen
 * @param {(file: Attached) => void} add
 */
export async function added(now, chosen, add) {
  for (const file of chosen) {
    const all = now();
    const refuse = (/** @type {string} */ why) => warn(`“${file.name}” was not added: ${why}.`);
    if (total(all) + file.size > MOST_BYTES)
      refuse(
        `it has ${words.size(file.size)}, and all attachments together may have at most ${words.size(MOST_BYTES)}`,
      );
    else await read(file).then(add, () => refuse("it could not be read"));
  }
}

/** @param {File} file */
async function read(file) {
  const type = /^[\w.+-]+\/[\w.+-]+$/.test(file.type) ? file.type : "application/octet-stream";
  return attached(new Blob([await file.arrayBuffer()]), { filename: file.name || "file", mimeType: type });
}

/** @param {Attached[]} files bytes */
export function total(files) {
  return files.reduce((sum, file) => sum + file.blob.size, 0);
}

/**
 * Return an attachment in the form of the API. A large file is uploaded first.
 * @param {Attached} file
 * @returns {Promise<{filename: string, mimeType: string, content?: string, uploadId?: string, contentId?: string, disposition?: string}>}
 */
export async function encoded({ id: _, blob, upload, ...about }) {
  if (blob.size <= UPLOADED) return { ...about, content: await base64(blob) };
  const abort = new AbortController();
  upload.set({ sent: 0, abort });
  try {
    const uploadId = await api.upload(blob, about.filename, abort.signal, (sent) => upload.set({ sent, abort }));
    return { ...about, uploadId };
  } finally {
    upload.set(null);
  }
}

/** Delete the uploads of a message that was not accepted. @param {{uploadId?: string}[]} attachments in the form of the API */
export function drop(attachments) {
  for (const { uploadId } of attachments) if (uploadId) api.remove(api.at`/uploads/${uploadId}`).catch(() => {});
}

/** @param {Blob} blob @returns {Promise<string>} */
function base64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,?/, ""));
    reader.onerror = () => reject(new Error("A file could not be read. Remove it and add it again."));
    reader.readAsDataURL(blob);
  });
}

/** @param {{files: Attached[], onAdd: (files: Iterable<File>) => void, onRemove: (file: Attached) => void}} props */
export function Files({ files, onAdd, onRemove }) {
  const id = useId();
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const choose = () => {
    onAdd([...(input.current?.files ?? [])]);
    if (input.current) input.current.value = "";
  };
  const remove = (/** @type {Attached} */ file) => {
    onRemove(file);
    file.upload.value?.abort.abort();
    input.current?.focus();
  };
  return html`<div class="field files">
    <label for=${id}>Attachments</label>
    ${
      files.length > 0 &&
      html`<ul class="deliveries" aria-label="Attached files">${files.map(
        (file) => html`<${AttachedFile} key=${file.id} file=${file} onRemove=${() => remove(file)} />`,
      )}</ul>`
    }
    <input id=${id} ref=${input} type="file" multiple onChange=${choose} aria-describedby=${`${id}-hint`} />
    <small id=${`${id}-hint`}>You can also drop files on the message. ${words.size(total(files))} of ${words.size(MOST_BYTES)} used.</small>
  </div>`;
}

/** @param {{file: Attached, onRemove: () => void}} props */
function AttachedFile({ file, onRemove }) {
  const upload = useShared(file.upload);
  const size = words.size(file.blob.size);
  const act = upload ? "Cancel" : "Remove";
  return html`<li><span class="what">${file.filename} <small class="muted">${upload ? `${words.size(upload.sent)} of ${size} uploaded` : size}</small>
      ${upload && html`<progress value=${upload.sent} max=${file.blob.size} aria-label=${`Upload of ${file.filename}`}></progress>`}</span>
    <button type="button" class="secondary outline small" aria-label=${`${act} ${file.filename}`} onClick=${onRemove}>${act}</button></li>`;
}

/** Return the handlers of an element on which files can be dropped. @param {(files: Iterable<File>) => void} onAdd */
export function droppable(onAdd) {
  const hasFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files");
  return {
    onDragOver: (/** @type {DragEvent} */ event) => void (hasFiles(event) && event.preventDefault()),
    onDrop: (/** @type {DragEvent} */ event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      onAdd([...(event.dataTransfer?.files ?? [])]);
    },
  };
}
