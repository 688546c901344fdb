"""The tray icon and its menu on Linux, by the protocols StatusNotifierItem and dbusmenu over D-Bus.

icon             finds a program that shows icons, and shows ours there
menu             the menu
dbus             the session bus; notifications
"""
