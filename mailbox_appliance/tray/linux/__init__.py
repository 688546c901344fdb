"""The icon and its menu on Linux: StatusNotifierItem and dbusmenu over D-Bus."""
