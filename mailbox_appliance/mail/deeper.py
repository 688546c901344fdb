"""Elements that lie deeper than are told apart: without a place and a style each."""

from collections import Counter
from dataclasses import dataclass, field

from mailbox_appliance.mail.elements import SCOPES, SPECIAL, VOID
from mailbox_appliance.mail.open_elements import Piece


@dataclass
class Deeper:
    """The open elements beyond DEEPEST, by their names alone: one that hides hides all until these are closed."""

    count: int = 0
    piece: Piece | None = None
    _names: Counter[str] = field(default_factory=Counter)

    def open(self, name: str, hidden: str) -> None:
        """Open one more; `hidden` is the technique that hides it."""
        if name in VOID:
            return
        self._names[name] += 1
        self.count += 1
        if hidden and self.piece is None:
            self.piece = Piece(hidden, is_counted=False)

    def is_open(self, name: str) -> bool:
        """Whether one of that name is open."""
        return self._names[name] > 0

    def keeps_open(self, name: str) -> bool:
        """Whether a closing tag does not reach what lies around these: it is of no block, or stops at one of these."""
        return name not in SPECIAL or any(self._names[each] for each in SCOPES)

    def close(self, name: str) -> None:
        """Close one of these."""
        self._names[name] -= 1
        self.count -= 1
        if not self.count:
            self.clear()

    def clear(self) -> None:
        """Close all of these."""
        self._names.clear()
        self.count, self.piece = 0, None
