"""The HTTP and HTTPS server, based on the library waitress. It knows neither the routes nor the operations of the API.

server           listeners (one open port with its own event loop), groups of listeners, and their shared workers
connection       one connection: deadlines, unsent output, closing, TLS
framing          reading a request: strict parsing, limits, large bodies
memory           the memory that bodies and responses may use; large bodies in encrypted temporary files
selector         the sockets that an event loop waits for, and the limit of connections for each client address
workers          the threads that answer requests, and the queue of requests that wait for them
"""
