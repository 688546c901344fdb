"""Sign-ins at Google and Microsoft, and the logins that come of them.

Requests to a provider and their answers are in `remote.oauth`; addresses and scopes in `remote.providers`.

    flows         sign-ins that were begun and are not finished; whose mailbox one gave access to
    tokens        access tokens, in memory only, renewed as needed; the OAuth applications they are requested with
    logins        opens every IMAP and SMTP connection, by password or by a token that is valid now
    environment   the OAuth applications that the operator sets in the environment
"""
