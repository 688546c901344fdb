"""Headless Chromium, controlled through two pipes (the DevTools protocol): it draws pages and compares them."""

import json
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

WIDTH, HEIGHT = 1000, 6000
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
#: No network: pictures and style sheets would delay the page.
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
    f"--window-size={WIDTH},800",
)
#: Visible differences of two pictures: how many pixels, and the most adjacent rows of them.
_COMPARE = """
(async (pictures) => {
  const [one, other] = await Promise.all(pictures.map(async (picture) => {
    const bitmap = await createImageBitmap(await (await fetch("data:image/png;base64," + picture)).blob());
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height), context = canvas.getContext("2d");
    context.drawImage(bitmap, 0, 0);
    return context.getImageData(0, 0, bitmap.width, bitmap.height);
  }));
  if (one.width != other.width || one.height != other.height) return {pixels: -1, rows: 9999};
  let pixels = 0, rows = 0, run = 0;
  for (let y = 0; y < one.height; y++) {
    let there = false;
    for (let x = y * one.width * 4; x < (y + 1) * one.width * 4; x++)
      if (Math.abs(one.data[x] - other.data[x]) > LEAST) { pixels++; there = true; }
    run = there ? run + 1 : 0;
    rows = Math.max(rows, run);
  }
  return {pixels, rows};
})
"""


class NoBrowser(Exception):
    """Chromium is not installed."""


@dataclass(frozen=True)
class Difference:
    """The difference of two pictures."""

    pixels: int
    rows: int

    @property
    def is_readable(self) -> bool:
        """Whether letters could be read there: they are at least five pixels high."""
        return self.rows >= 5


class Browser:
    """A browser with one page. Raises NoBrowser."""

    def __init__(self, least: int = 32) -> None:
        """`least`: the smallest difference of a color (0 to 255) that counts as visible."""
        program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
        if program is None:
            raise NoBrowser("Chromium is not installed.")
        self._compare = _COMPARE.replace("LEAST", str(least))
        self._folder = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        self._process, self._out, self._in = _started(program, self._folder.name)
        self._number, self._session = 0, ""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._ask("Page.enable")
        # As in a mail program: no scripts run, and `noscript` is shown.
        self._ask("Emulation.setScriptExecutionDisabled", value=True)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(60)
        self._process.kill()
        self._process.wait()
        self._out.close()
        self._in.close()
        self._folder.cleanup()

    def drawn(self, page: str) -> str:
        """Return a picture of a page from its top, as PNG in base64; all letters have the same width."""
        file = Path(self._folder.name) / "page.html"
        file.write_text(page, encoding="utf-8", errors="replace")
        self._ask("Page.navigate", url=file.as_uri())
        self._wait_for("Page.loadEventFired")
        style = "const s=document.createElement('style');s.textContent='*{font-family:monospace !important}';"
        height = self._run(style + "document.body.append(s);document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": min(max(height, 1), HEIGHT), "scale": 1}
        return str(self._ask("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"])

    def difference(self, one: str, other: str) -> Difference:
        """Return the difference of two pictures."""
        if one == other:
            return Difference(0, 0)
        found = self._run(f"{self._compare}({json.dumps([one, other])})")
        return Difference(found["pixels"], found["rows"])

    def _run(self, program: str) -> Any:
        answer = self._ask("Runtime.evaluate", expression=program, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def _ask(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._in.write(json.dumps(message).encode() + b"\0")
        self._in.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]

    def _wait_for(self, event: str) -> None:
        while self._next().get("method") != event:
            pass

    def _next(self) -> Any:
        read = bytearray()
        while not read.endswith(b"\0"):
            # Reads to the end of a message, or what has arrived: peek does not wait if there is something.
            there = self._out.peek(1)  # type: ignore[attr-defined]
            assert there, "the browser is gone"
            end = there.find(b"\0")
            read += self._out.read(end + 1 if end >= 0 else len(there))
        return json.loads(read[:-1])


def _started(program: str, folder: str) -> tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]:
    """Start Chromium, which reads from descriptor 3 and writes to 4."""
    hears, we_say = os.pipe()
    we_hear, says = os.pipe()
    command = ["bash", "-c", f'exec "$@" 3<&{hears} 4>&{says}', "bash", program, *_FLAGS, f"--user-data-dir={folder}"]
    process = subprocess.Popen(
        command, pass_fds=(hears, says), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(hears)
    os.close(says)
    return process, os.fdopen(we_hear, "rb", 1 << 20), os.fdopen(we_say, "wb")
