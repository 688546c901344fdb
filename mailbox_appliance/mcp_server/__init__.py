"""The MCP server: tools for AI agents over the Model Context Protocol. Each tool calls an operation of the appliance.

`operations` decides what an operation does and who may call it. Only `protocol`, `bridge` and `stdio` import the MCP
SDK, and only when they are used.

tools            the table of tools: names, operations, titles, texts
tool             the types of a tool, its caller and its result; texts that every tool shares
read_tools       tools that read mailboxes, messages, bodies, threads and attachments
write_tools      tools that write drafts, sends and bulk actions; their status in words
arguments        converts the arguments of a tool to the request of an operation; JSON schemas
call             calls of a tool by its name; every failure becomes a result
render           results as text, structured content and notes; errors
limits           sizes, truncation, and marks around untrusted content
resources        the latest changes as resources
protocol         messages checked before the SDK sees them; the SDK's server of the tools
bridge           the connection of worker threads with the SDK's event loop
http             MCP over HTTP
stdio            MCP on standard input and output, for a running appliance
"""
