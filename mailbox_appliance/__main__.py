"""The console script `mailbox-appliance`, and `python -m mailbox_appliance`."""

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    from mailbox_appliance.cli.main import run  # nothing is imported before it is needed

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
