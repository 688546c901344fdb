"""What the command line does on the files of a data directory itself, because nothing runs on it: the key of the store,
its backups, the store as a whole, the first set-up. Each takes the directory's lock for as long as it works, and
answers what the API would. What happens while an appliance runs does not live here; it is asked over HTTP.
"""
