"""The HTTP interface: REST, the console's files, metrics, and MCP's endpoint. Rules are in `operations`, not here.

app              the WSGI application: finds the route, runs its operation, writes the response
routes           the table of REST routes: operation, statuses, one row each
http             requests and responses: bodies, envelope, errors, proxies, origins, allowed hosts
mcp              POST /mcp: identifies the caller, then calls the handler that was passed in
openapi          the OpenAPI description, from the routes and the types
console_files    the files of the console: linked, minified, served under a digest
pages            health, and the page that a provider's sign-in returns to
metrics          the table of metrics, their values, request counters, Prometheus' text format
server           (folder) the HTTP server
console          (folder) the browser interface, in JavaScript
"""
