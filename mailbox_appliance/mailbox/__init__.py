"""What is done at a mail server because somebody asks for it now: flags, moves, drafts, attachments. Not sync or
sending.
"""
