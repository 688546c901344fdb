"""Operations by which people oversee what is sent.

approvals   list, read, approve and reject the messages that wait for a person
policies    the sending policies of mailboxes and API keys

The module `policies` of the package decides what a policy allows; `store.approvals` keeps both.
"""
