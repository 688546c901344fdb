"""Log-ins as tests make them, from this computer or from elsewhere."""

from tests.checked_client import PASSWORD, Answer, CheckedClient

LOGIN = {"email": "ada@example.org", "password": PASSWORD, "deviceName": "laptop"}
WRONG = LOGIN | {"password": "not the password"}


def log_in(client: CheckedClient, body: object = LOGIN, peer: str = "127.0.0.1") -> Answer:
    """Ask for a session; from elsewhere by HTTPS."""
    return client.ask("POST", "/auth/login", body, peer=peer, secure=peer != "127.0.0.1")
