"""Ask the issuer of a license whether it is valid, with one HTTPS request.

    POST {verify_url}   {"token": "..."}   ->   200   {"valid": true}   or   {"valid": false}

Plain HTTP is allowed only to a server on this computer. The operator configures the URL.
"""

import json

import msgspec

from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.net import https


class _LicenceAnswer(msgspec.Struct, frozen=True):
    valid: bool


def is_licence_valid(url: str, token: str, *, ca_file: str, timeout: float) -> bool:
    """Whether the issuer confirms the license `token`. Raises RemoteFault if it gives no answer.

    The caller must have checked that `url` is allowed.
    """
    options = https.HttpsOptions("license", ca_file, timeout, only_public=False)
    headers = {"Content-Type": "application/json"}
    answer = https.request("POST", url, options, headers, json.dumps({"token": token}).encode())
    if answer.status != 200:
        raise RemoteFault("license", "malformed", f"The license server answered with status {answer.status}.")
    try:
        return decode_json(answer.body, _LicenceAnswer).valid
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RemoteFault("license", "malformed", "The license server returned an invalid response.") from error
