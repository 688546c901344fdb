"""The tray icon: a process of its own, and a client of the API with its member's session.

It shows the status of the appliance, starts and stops the service, and opens the console. What it may do is decided by
`operations`, as for every client.

run              the tray process: one for each data directory; its signals and its end
watcher          polls the appliance
state            what the tray knows, in values and words; when to poll
menu             state to menu rows, icon and title
notifications    the difference of two states to notices
item_actions     what the menu items do; the console, folders and terminals opened
display          keeps the icon up to date
view             icon, looks and rows, independent of the desktop
service          starts, stops and restarts the service; finds the owner of the directory
owner            the process that owns a data directory
login            the token of the session
autostart        start at login
pystray          the icon drawn, and shown by pystray
linux            (folder) the icon on Linux
"""
