"""Messages that try to talk to whoever reads them: the rows of `tests.servers.injections`, kind by kind.

Whatever is to arrive holds a word that begins with `DecoyIn`, whatever no reader would see one that begins with
`Phantom`; neither can stand in an id (no `o` in them) or, by chance, in a token.
"""
