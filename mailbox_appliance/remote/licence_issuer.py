"""Asks whoever issued a licence whether it is good: one request, one short answer.

    POST {verify_url}   {"token": "..."}   ->   200   {"valid": true}   or   {"valid": false}

HTTPS only, but for a server on this computer. It is the operator who says where it is asked.
"""

import json

import msgspec

from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.net import https


class _LicenceAnswer(msgspec.Struct, frozen=True):
    valid: bool


def is_licence_valid(url: str, token: str, *, ca_file: str, timeout: float) -> bool:
    """Whether the issuer says that this licence is good. `url` is checked already. Raises RemoteFault."""
    options = https.HttpsOptions("license", ca_file, timeout, only_public=False)
    headers = {"Content-Type": "application/json"}
    answer = https.request("POST", url, options, headers, json.dumps({"token": token}).encode())
    if answer.status != 200:
        raise RemoteFault("license", "malformed", f"The licence server answered with status {answer.status}.")
    try:
        return decode_json(answer.body, _LicenceAnswer).valid
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RemoteFault("license", "malformed", "The licence server gave no answer that could be read.") from error
