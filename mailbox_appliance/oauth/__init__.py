"""Sign-ins at Google and Microsoft, and the logins that result from them.

Requests to a provider and its responses are in `remote.oauth`; addresses and scopes in `remote.providers`.

    flows         sign-ins in progress, and the mailbox that a finished one gives access to
    tokens        access tokens, in memory only, renewed as needed; the OAuth applications that request them
    logins        opens every IMAP and SMTP connection, with a password or a valid access token
    environment   the OAuth applications that the operator sets in the environment
"""
