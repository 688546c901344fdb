"""The entry point of a bundle's desktop program (Windows, macOS). Without arguments it starts the tray icon."""

import sys

from mailbox_appliance.__main__ import main

if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.argv += ["tray", "--open"]
    main()
