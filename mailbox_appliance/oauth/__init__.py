"""Sign-ins at Google and Microsoft (OAuth 2.0), and connections that use them.

Requests to a provider and its responses are in `remote.oauth`; URLs and scopes in `remote.providers`.

    flows         sign-ins in progress, and the mailbox to which a finished one gives access
    tokens        access tokens, in memory only, renewed as needed; the OAuth applications that request them
    logins        opens every IMAP and SMTP connection, with a password or a valid access token
    environment   the OAuth applications that the operator sets in environment variables
"""
