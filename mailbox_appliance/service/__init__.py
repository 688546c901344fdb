"""The process that serves: starts, listens, obeys signals, and stops. Nobody imports it but `__main__`."""
