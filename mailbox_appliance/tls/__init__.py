"""The certificate of our own HTTPS: files, making one, reading and checking one."""
