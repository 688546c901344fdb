"""The HTTP interface: the REST API, the browser console, metrics, and the endpoint for MCP clients. The rules of what
may be done are in `operations`, not here.

app              the WSGI application: finds the route, runs its operation, writes the response
routes           the table of REST routes: operation, statuses, one row each
http             requests and responses: bodies, JSON envelope, errors, proxies, origins, allowed hosts
mcp              POST /mcp: identifies the caller, then calls the handler of the MCP server
openapi          the OpenAPI description, from the routes and the types
console_files    the files of the console, served under a digest; the API reference; the page a sign-in returns to
metrics          the table of metrics, who may read them, their values, request counters
server           (folder) the HTTP server
console          (folder) the browser interface, in JavaScript
"""
