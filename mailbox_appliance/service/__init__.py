"""The server process behind `serve`: starts, listens, handles signals, stops. Only `__main__` imports it.

bootstrap   opening the appliance of a data directory: settings, store, setup code
listeners   HTTP as started, HTTPS as the settings and the certificate files require
main        the order of start and stop
service     the running appliance, which a restore replaces while the listeners stay open
shutdown    stopping within a time limit
signals     signals from the system, and the state reported to systemd
"""
