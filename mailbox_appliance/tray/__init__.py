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
view             icon, looks and rows, independent of the desktop
service          starts, stops and restarts the service; finds the owner of the directory
owner            the process that owns a data directory
login            the token of the session
autostart        start at login
pystray          the icon drawn, and shown by pystray
linux            (folder) the icon on Linux
"""
