"""The door for assistants: tools of the Model Context Protocol (MCP), each a row that stands for an operation.

Here: which operation is offered as which tool, how arguments become a request, how an answer becomes a bounded text in
which a sender's words are fenced, and what carries all this (Streamable HTTP, stdio). Not here: what an operation does,
and who may ask for it. The MCP SDK is imported by `catalogue`, `bridge` and `stdio` alone, and only when they are used.
"""
