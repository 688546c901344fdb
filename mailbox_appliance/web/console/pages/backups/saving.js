// @ts-check
/**
 * Saving a large response of the API as a file. If the browser lets a page write files, it is written piece by piece.
 * Otherwise the browser keeps the pieces on disk, and they are saved as a download.
 */
import * as api from "../../api.js";

const PIECE = 1024 * 1024; // bytes that the page itself holds at most

/**
 * @param {import("./backup.js").Backup} backup
 * @param {(got: number) => void} tell gets the number of bytes so far
 * @param {AbortSignal} signal
 * @returns {Promise<boolean>} false: the person chose no file
 */
export async function save(backup, tell, signal) {
  const place = await chosen(backup.fileName);
  if (place === null) return false;
  tell(0);
  const response = await api.file(api.at`/admin/backups/${backup.id}`, { signal });
  const file = await place?.createWritable();
  /** @type {Blob[]} */
  const kept = [];
  try {
    await inPieces(response, tell, async (piece) => void (file ? await file.write(piece) : kept.push(piece)));
    if (file) await file.close();
    else handOver(new Blob(kept, { type: "application/octet-stream" }), backup.fileName);
  } catch (problem) {
    await file?.abort().catch(() => {});
    if (signal.aborted) throw problem;
    const why = problem instanceof Error ? problem.message : String(problem);
    throw new Error(`The download stopped, and the saved part cannot be used. Try again. (${why})`);
  }
  return true;
}

/** @param {Response} response @param {(got: number) => void} tell @param {(piece: Blob) => Promise<void>} take */
async function inPieces(response, tell, take) {
  const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body).getReader();
  /** @type {Uint8Array<ArrayBuffer>[]} */
  let held = [];
  let size = 0;
  for (let got = 0, isDone = false; !isDone; ) {
    const next = await reader.read();
    isDone = next.done;
    if (next.value) held.push(next.value);
    size += next.value?.length ?? 0;
    if (size < PIECE && !isDone) continue;
    await take(new Blob(held));
    got += size;
    tell(got);
    held = [];
    size = 0;
  }
}

/** Ask for a file. undefined: the browser cannot ask; null: the person canceled. @param {string} name @returns {Promise<any>} */
async function chosen(name) {
  const choose = /** @type {any} */ (globalThis).showSaveFilePicker;
  if (!choose) return undefined;
  try {
    return await choose({ suggestedName: name });
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === "AbortError") return null;
    return undefined; // the browser does not allow it on this page
  }
}

/** @param {Blob} blob @param {string} name */
function handOver(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
