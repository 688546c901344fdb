"""The embedded IMAP server of the demo (pymap). It serves the Maildir folders that `maildir` creates.

This module replaces defaults of pymap. By itself, pymap hashes passwords half a million times, checks for new mail once
a second, and serves messages rewritten and with bare LF. It also sends responses in small pieces, asks DNS for its own
name, and blocks a thread for each client in IDLE.
"""

import asyncio
from argparse import Namespace
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from proxyprotocol.sock import SocketInfo
from pymap.backend.maildir import Config, FilterSet, Identity, Login, Session
from pymap.backend.maildir.layout import DefaultLayout
from pymap.backend.maildir.mailbox import MailboxData, MailboxSet, Maildir
from pymap.backend.maildir.uidlist import UidList
from pymap.backend.maildir.users import PasswordsFile, UsersFile
from pymap.concurrent import Event, Subsystem
from pymap.imap import IMAPServer
from pymap.interfaces.login import IdentityInterface
from pymap.parsing.specials import ObjectId
from pymap.selected import SelectedMailbox
from pysasl.hashing import BuiltinHash, HashInterface

from mailbox_appliance.demo.maildir import read_message

#: Seconds between checks of a folder for a client in IDLE.
LOOK_AGAIN = 0.2


async def start_imap_server(folder: Path, passwords: Mapping[str, str]) -> asyncio.Server:
    """Start an IMAP server on a free port of 127.0.0.1. `passwords`: by user name.

    `folder/NAME` is the mailbox of NAME.
    """
    config = _Config(
        Namespace(passlib_cfg=None, proxy_protocol=None),
        host="127.0.0.1",
        port=0,
        base_dir=str(folder),
        layout="++",
        colon=None,
        tls_enabled=False,
        subsystem=Subsystem.for_asyncio(),
        # The passwords are random and exist only during the demo, so one round is enough.
        hash_context=BuiltinHash(rounds=1),
        invalid_user_sleep=0.0,
    )
    await _write_users(folder, passwords, config.hash_context)
    config.apply_context()
    server = IMAPServer(_Login(config), config)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        whole: Any = _BufferedWriter(writer)
        await server(reader, whole, SocketInfo.get(writer, None))

    return await asyncio.start_server(answer, "127.0.0.1", 0)


class _BufferedWriter:
    """A stream writer for pymap that sends each response in one piece.

    Observed: a client in IDLE treats half a line as an error.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer, self._pending = writer, bytearray()

    def write(self, data: bytes) -> None:
        self._pending += data

    async def drain(self) -> None:
        self._flush()
        await self._writer.drain()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        self._writer.write(bytes(self._pending))
        self._pending.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)


async def _write_users(folder: Path, passwords: Mapping[str, str], hashes: HashInterface) -> None:
    async with UsersFile.with_write(str(folder)) as users, PasswordsFile.with_write(str(folder)) as shadow:
        for name, password in passwords.items():
            users.set(users.build_record(name, name))
            shadow.set(shadow.build_record(name, hashes.hash(password)))


class _Config(Config):
    @property
    def greeting(self) -> bytes:
        return b"Demo server ready"


class _Login(Login):
    async def authorize(self, authenticated: IdentityInterface, authzid: str) -> Identity:
        identity = await super().authorize(authenticated, authzid)
        return _Identity(identity.config, identity.tokens, identity.name, None, identity.roles)


class _Identity(Identity):
    @asynccontextmanager
    async def new_session(self) -> AsyncIterator[Session]:
        home = str(Path(self.config.base_dir) / self.name)
        boxes = _MailboxSet(_Maildir(home, create=False), DefaultLayout(home, _Maildir))
        yield Session(self.name, self.config, boxes, FilterSet(home))


class _Maildir(Maildir):
    def get_message(self, key: str) -> Any:
        return _StoredMessage(read_message(Path(self._join(self._lookup(key)))))


class _StoredMessage:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def __bytes__(self) -> bytes:
        return self._content


class _MailboxSet(MailboxSet):
    async def get_mailbox(self, name: str) -> MailboxData:
        if name not in self._cache:
            self._cache[name] = await self._opened(name)
        return await super().get_mailbox(name)

    async def _opened(self, name: str) -> MailboxData:
        try:
            folder = self._inbox_maildir if name == "INBOX" else self._layout.get_folder(name, self.delimiter)
        except FileNotFoundError as error:
            raise KeyError(name) from error
        path = self._layout.get_path(name, self.delimiter)
        async with UidList.with_init(path) as uids:
            return _Mailbox(ObjectId(uids.global_uid), folder, path)


class _Mailbox(MailboxData):
    async def update_selected(self, selected: SelectedMailbox, *, wait_on: Event | None = None) -> SelectedMailbox:
        if wait_on is not None:
            await wait_on.wait(timeout=LOOK_AGAIN)
        return await super().update_selected(selected)
