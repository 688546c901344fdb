"""Where the program of a bundle begins that is opened by a click (Windows, macOS): without arguments it is the tray."""

import sys

from mailbox_appliance.__main__ import main

if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.argv += ["tray", "--open"]
    main()
