"""The process that serves: start, listen, handle signals, stop. Nobody imports it but `__main__`.

bootstrap   opening the appliance of a data directory: settings, store, setup code
listeners   HTTP as started, HTTPS as the settings and the certificate files say
main        the order of a start and a stop
service     the running appliance, which a restore replaces while the listeners stay open
shutdown    stopping within a time limit
signals     signals from the system, and the state reported to systemd
"""
