"""The console script `mailbox-appliance`, and `python -m mailbox_appliance`."""

import sys

from mailbox_appliance.system import ownership

#: What the command line offers of the floors above it, named here so that nothing is imported before it is used.
SERVICES = {
    "serve": "mailbox_appliance.service.main:serve",
    "setup_on_files": "mailbox_appliance.on_files.setup:setup_on_files",
    "verify_audit_on_files": "mailbox_appliance.on_files.setup:verify_audit_on_files",
    "show_key": "mailbox_appliance.on_files.keys:show_key",
    "add_passphrase": "mailbox_appliance.on_files.keys:add_passphrase",
    "use_keyring": "mailbox_appliance.on_files.keys:use_keyring",
    "use_file": "mailbox_appliance.on_files.keys:use_file",
    "create_backup_on_files": "mailbox_appliance.on_files.backups:create",
    "list_backups_on_files": "mailbox_appliance.on_files.backups:list_",
    "verify_backup_on_files": "mailbox_appliance.on_files.backups:verify",
    "verify_backup_file": "mailbox_appliance.on_files.backups:verify_file",
    "restore_on_files": "mailbox_appliance.on_files.restores:restore",
    "unpack_backup": "mailbox_appliance.on_files.restores:unpack",
    "store_status_on_files": "mailbox_appliance.on_files.stores:status",
    "check_store_on_files": "mailbox_appliance.on_files.stores:check",
    "survey_store": "mailbox_appliance.on_files.upgrades:surveyed",
    "upgrade_store": "mailbox_appliance.on_files.upgrades:upgraded",
    "compact_store": "mailbox_appliance.on_files.stores:compacted",
    "rekey_store": "mailbox_appliance.on_files.stores:rekeyed",
    "https_status_on_files": "mailbox_appliance.on_files.https:status",
    "change_https_on_files": "mailbox_appliance.on_files.https:change",
    "import_certificate_on_files": "mailbox_appliance.on_files.https:import_",
    "rotate_certificate_on_files": "mailbox_appliance.on_files.https:rotated",
    "https_fingerprint": "mailbox_appliance.on_files.https:fingerprint",
    "mcp_stdio": "mailbox_appliance.mcp_server.stdio:serve",
    "tray": "mailbox_appliance.tray.run:run",
    "end_tray": "mailbox_appliance.tray.run:end",
    "show_in_browser": "mailbox_appliance.tray.opening:show_in_browser",
    "autostart": "mailbox_appliance.tray.autostart:for_this_system",
    "demo": "mailbox_appliance.demo.run:main",
    "demo_servers": "mailbox_appliance.demo.servers:main",
}
#: The hidden command that `sync.parser_process` starts in a bundle; nothing of the command line is loaded for it.
PARSE_MAIL = "parse-mail"


def main() -> None:
    """Run the command line and leave with its exit code."""
    ownership.restrict_umask()  # before any file is made
    try:
        if sys.argv[1:] == [PARSE_MAIL]:
            from mailbox_appliance.sync import parsing

            parsing.main()
        from mailbox_appliance.cli.main import run  # nothing is imported before it is needed

        code = run(sys.argv[1:], SERVICES)
    except KeyboardInterrupt:  # amid imports; `run` tells of all others
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
