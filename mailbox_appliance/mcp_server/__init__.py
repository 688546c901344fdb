"""Tools for AI agents, over the Model Context Protocol (MCP): each tool is a row that names an operation.

What an operation does and who may call it is decided in `operations`. The MCP SDK is imported by `protocol`, `bridge`
and `stdio` alone, and only when they are used.

tools            the table of tools: names, operations, titles, texts
tool             what a tool is; texts that every tool shares
read_tools       how tools read: mailboxes, messages, bodies, threads, attachments
write_tools      how tools write: drafts, sends, bulk actions; the status of both in words
arguments        a tool's arguments to an operation's request; JSON schemas
call             calling a tool by its name; every failure becomes a result
render           a response as text, structured content and notes; errors
limits           sizes, truncation, and fences around what senders wrote
protocol         messages checked before the SDK sees them; the SDK's server of the tools
bridge           between worker threads and the SDK's event loop
http             MCP over HTTP
stdio            MCP on standard input and output, for a running appliance
"""
