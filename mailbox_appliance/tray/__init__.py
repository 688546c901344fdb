"""The tray icon: a separate process, which is a client of the API with the session of the signed-in member.

It shows the status of the appliance, starts and stops the service, and opens the console. Its permissions are checked
by `operations`, as for every client.

run              the tray process: one for each data directory; its signals and its end
watcher          polls the appliance
state            the known state of the appliance, its texts, and the polling schedule
menu             the state as menu rows, icon and title
notifications    the difference of two states as notifications
item_actions     actions of menu items; opens the console, folders and terminals
display          keeps the icon up to date
view             types and pictures of the icon and menu rows, independent of the desktop
service          finds, starts, stops and restarts the service
login            the session token of the user
autostart        starts the tray when the user signs in to the computer
pystray          the icon on Windows and macOS, with the library pystray
linux            (folder) the icon on Linux, over D-Bus
"""
