from tests.mail.fuzz import LONGEST_SECONDS, MOST_MEMORY, run


def test_two_thousand_damaged_messages_are_read() -> None:
    worst, growth = run(1, range(2_000))
    assert worst.seconds <= LONGEST_SECONDS
    assert growth <= MOST_MEMORY
