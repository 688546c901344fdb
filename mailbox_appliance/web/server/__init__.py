"""The HTTP and HTTPS server, based on waitress. It knows neither routes nor operations.

server           listeners with a loop each, groups of them, the workers they share
connection       one connection: deadlines, pending output, closing, TLS
framing          reading a request: strict framing, limits, large bodies
memory           the memory that bodies and responses may use; large bodies in encrypted files
selector         the sockets of a loop, and the limit of connections for each peer
task_queue       requests that wait for a worker
"""
