"""The console script `mailbox-appliance`, and `python -m mailbox_appliance`."""

import atexit
import gc
import os
import sys
import threading

from mailbox_appliance.system import ownership, stdio

#: Implementations in higher layers that the command line uses, by name, so that each is imported only when needed.
SERVICES = {
    "serve": "mailbox_appliance.service.main:serve",
    "call_on_files": "mailbox_appliance.offline.store:call",
    "setup_on_files": "mailbox_appliance.offline.store:setup_on_files",
    "show_key": "mailbox_appliance.offline.keys:show_key",
    "add_passphrase": "mailbox_appliance.offline.keys:add_passphrase",
    "use_keyring": "mailbox_appliance.offline.keys:use_keyring",
    "use_file": "mailbox_appliance.offline.keys:use_file",
    "list_backups_on_files": "mailbox_appliance.offline.store:list_backups",
    "verify_backup_on_files": "mailbox_appliance.offline.store:verify_backup",
    "verify_backup_file": "mailbox_appliance.offline.store:verify_backup_file",
    "restore_on_files": "mailbox_appliance.offline.restore:restore",
    "unpack_backup": "mailbox_appliance.offline.restore:unpack",
    "store_status_on_files": "mailbox_appliance.offline.store:status",
    "check_store_on_files": "mailbox_appliance.offline.store:check",
    "survey_store": "mailbox_appliance.offline.store:dry_run_upgrade",
    "upgrade_store": "mailbox_appliance.offline.store:upgrade",
    "compact_store": "mailbox_appliance.offline.store:compact",
    "rekey_store": "mailbox_appliance.offline.store:rekey",
    "https_fingerprint": "mailbox_appliance.offline.store:https_fingerprint",
    "mcp_stdio": "mailbox_appliance.mcp_server.stdio:serve",
    "tray": "mailbox_appliance.tray.run:run",
    "end_tray": "mailbox_appliance.tray.run:quit_tray",
    "show_in_browser": "mailbox_appliance.tray.item_actions:show_in_browser",
    "autostart": "mailbox_appliance.tray.autostart:for_this_system",
    "demo": "mailbox_appliance.demo.run:main",
    "demo_servers": "mailbox_appliance.demo.servers:main",
}
#: The hidden command that `sync/parsers.py` starts in a bundle; it loads nothing of the command line.
PARSE_MAIL = "parse-mail"
#: Instead of 700: a start creates many objects and frees few.
_OBJECTS_BETWEEN_COLLECTIONS = 10_000


def main() -> None:
    """Run the command line and leave with its exit code."""
    ownership.restrict_umask()  # before any file is made
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    try:
        if sys.argv[1:] == [PARSE_MAIL]:
            from mailbox_appliance.sync import parse_child

            parse_child.main()
        from mailbox_appliance.cli.main import run  # deferred, so that `parse-mail` does not load it

        code = run(sys.argv[1:], SERVICES)
    except KeyboardInterrupt:  # during the imports; `run` handles all others
        code = 130
    _leave(code)


def _leave(code: int) -> None:
    """End the process with this exit code.

    Python would free all modules and objects one by one, which takes a sixth of the time of a short command.
    """
    if threading.active_count() == 1:
        atexit._run_exitfuncs()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stdio.flush_quietly(stream)
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
