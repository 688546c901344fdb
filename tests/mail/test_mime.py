"""Decoding in pieces equals decoding as a whole, wherever the pieces are cut."""

import base64
import binascii
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailbox_appliance.mail.mime import decode_transfer
from mailbox_appliance.mail.parse import attachment_bytes

PICTURE = bytes(range(256)) * 40


def as_a_whole(encoded: bytes, encoding: str) -> bytes | None:
    header = f"Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n".encode()
    return attachment_bytes(header + encoded, "1")


def in_pieces(encoded: bytes, encoding: str, size: int) -> bytes:
    return b"".join(decode_transfer((encoded[at : at + size] for at in range(0, len(encoded), size)), encoding))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 76, 1000, 100_000])
@pytest.mark.parametrize(
    ("encoded", "encoding"),
    [
        (base64.encodebytes(PICTURE), "base64"),
        (base64.b64encode(PICTURE), "BASE64 "),
        (base64.encodebytes(PICTURE[:100]).replace(b"\n", b"\r\n"), "base64"),
        (base64.encodebytes(PICTURE[:101]), "base64"),
        (b"YWJj!Z!GVm", "base64"),
        (b"YWI=\r\nY2Q=\r\n", "base64"),
        (b"YQ==YWJj", "base64"),
        (b"YWJj=\nZGVm", "base64"),
        (b"YW=Jj", "base64"),
        (b"=YWJj", "base64"),
        (b"YWJjZA=Y", "base64"),
        (b"YWJ", "base64"),
        (b"Y", "base64"),
        (b"", "base64"),
        (b"====", "base64"),
        (binascii.b2a_qp(PICTURE), "quoted-printable"),
        (b"a=\r\nb=3D =20 \t \r\nc=zz=\n=", "quoted-printable"),
        (b"  \r\n\t\n=E4=\r\n", "Quoted-Printable"),
        (b"plain \r\n", "7bit"),
        (b"plain =3D", "x-unknown"),
        (b"plain =3D", ""),
    ],
)
def test_wherever_it_is_cut(encoded: bytes, encoding: str, size: int) -> None:
    assert in_pieces(encoded, encoding, size) == as_a_whole(encoded, encoding)


@given(st.text("YWJjZA= \r\n!\t=", max_size=40), st.sampled_from(["base64", "quoted-printable"]), st.integers(1, 10))
def test_whatever_is_in_it(encoded: str, encoding: str, size: int) -> None:
    assert in_pieces(encoded.encode(), encoding, size) == as_a_whole(encoded.encode(), encoding)


@pytest.mark.parametrize("encoded", [b"x" * 3_000_000, b" " * 3_000_000, b"=" * 3_000_000, b"=A" * 1_500_000])
@pytest.mark.parametrize("encoding", ["base64", "quoted-printable"])
def test_no_line_end_anywhere_takes_no_time_and_holds_little(encoded: bytes, encoding: str) -> None:
    start = time.process_time()
    in_pieces(encoded, encoding, 1 << 16)
    assert time.process_time() - start < 5
