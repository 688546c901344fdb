"""What the rules say about 10,000 random sets of recipients, compared with a model of the rules."""

import random

from mailbox_appliance.mail.address import comparable_domain, to_envelope_address
from mailbox_appliance.model.decoding import convert
from mailbox_appliance.operations.oversight.policies import SetSendingPolicyRequest, to_policy
from mailbox_appliance.policies import judge
from tests.approvals.recipients import Case, draw, identities, identity

CASES, SEED = 10_000, 20261123


def nobody(_: object) -> tuple[str, ...]:
    return ()


def denied(case: Case) -> bool:
    """Whether the policy denies the message; fails if a recipient in SMTP is somebody else."""
    envelope = tuple(dict.fromkeys(to_envelope_address(each.written) for each in case.recipients))
    assert {identity(each) for each in envelope} == identities(case.recipients), case
    policy = to_policy(convert(case.policy(), SetSendingPolicyRequest))
    verdict = judge(policy, envelope, {comparable_domain(case.own.spellings[0])}, nobody)
    found = {identity(denial.recipient) for denial in verdict.denials if denial.recipient is not None}
    assert found == identities(each for each in case.recipients if case.is_forbidden(each)), case
    return bool(verdict.denials)


def test_no_recipient_outside_the_rules_passes_and_no_other_is_refused() -> None:
    chance, refused = random.Random(SEED), 0
    for number in range(CASES):
        case = draw(chance)
        assert denied(case) == case.is_refused(), f"case {number} of seed {SEED}: {case}"
        refused += case.is_refused()
    assert CASES * 0.2 < refused < CASES * 0.9, "the cases are one-sided"
