"""The icons of all packages show the tray's figure, each size drawn separately."""

import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import IcnsImagePlugin, IcoImagePlugin, Image

from mailbox_appliance.tray.view import ICON_SIZES, IconLook, icon_pixels
from tests.packaging.unit_files import ROOT

NAME = "mailbox-appliance"
DRAW = ROOT / "packaging" / "icons" / "draw"
draw = runpy.run_path(str(DRAW))


@pytest.fixture(scope="module")
def icons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("icons")
    command = (sys.executable, DRAW, folder)
    finished = subprocess.run(command, capture_output=True, text=True)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
    return folder


def found(icons: Path) -> Iterator[tuple[str, Image.Image]]:
    """Yield every image in every file, with its place."""
    for file in sorted(icons.rglob("*.png")):
        with Image.open(file) as image:
            assert f"{image.width}x{image.height}" == file.parts[-3]
            yield file.name, image.copy()
    with Image.open(icons / f"{NAME}.ico") as image:
        assert isinstance(image, IcoImagePlugin.IcoImageFile)
        for size in image.ico.sizes():
            yield "ico", image.ico.getimage(size).copy()
    with Image.open(icons / f"{NAME}.icns") as image:
        assert isinstance(image, IcnsImagePlugin.IcnsImageFile)
        for icns_size in image.icns.itersizes():
            yield "icns", image.icns.getimage(icns_size).copy()


def test_every_picture_is_drawn_for_its_size(icons: Path) -> None:
    pictures = list(found(icons))
    for where, image in pictures:
        assert image.mode == "RGBA", where
        assert image.tobytes() == draw["drawn"](image.width).tobytes(), (where, image.size)
    sizes = {kind: sorted(image.width for where, image in pictures if where == kind) for kind, _ in pictures}
    assert sizes == {
        f"{NAME}.png": [16, 22, 24, 32, 48, 64, 128, 256, 512],
        "ico": [16, 20, 24, 32, 40, 48, 64, 256],
        "icns": [32, 64, 128, 256, 256, 512, 512, 1024],
    }


@pytest.mark.parametrize("look", IconLook)
def test_the_pictures_of_the_tray_are_those_that_are_drawn(look: IconLook) -> None:
    assert draw["TRAY_SIZES"] == ICON_SIZES
    for size in ICON_SIZES:
        assert icon_pixels(size, look) == draw["drawn"](size, look.value).tobytes(), "run packaging/icons/draw"


def test_the_scalable_one_is_the_console_s(icons: Path) -> None:
    drawn = icons / "hicolor" / "scalable" / "apps" / f"{NAME}.svg"
    assert drawn.read_bytes() == (ROOT / "mailbox_appliance" / "web" / "console" / "icon.svg").read_bytes()
