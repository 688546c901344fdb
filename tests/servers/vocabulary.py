"""Words as a language has them: few that are everywhere, many that are rare (Zipf's law)."""

import random
from itertools import accumulate

_COMMON = """
the of and to in is you that it for on with as are this be at have from or by not but what all were we when
your can there use an each which do how their if will up other about out many then them these so some would
make like time has look two more write go see number way could people than first water been call who oil its
now find long down day did get come made may part over new sound take only little work know place year live
back give most very after meeting invoice order budget report contract project customer delivery schedule
review update account payment attached please thanks regards question answer office travel library kitchen
garden warehouse holiday
"""
_ONSETS = """
b c d f g h j k l m n p r s t v w z bl br ch cl cr dr fl fr gl gr kn pl pr qu sc sh sl sp st str th tr
"""
_VOWELS = """
a e i o u ai ea ee ie oa oo ou
"""
_ENDINGS = """
b d f g k l m n p r s t x ck ft ld lt mp nd ng nk nt rd rk rn rt sh sk sp st
"""
_PARTS = (_ONSETS.split(), _VOWELS.split(), _ENDINGS.split())


class Vocabulary:
    """So many different words, the most frequent first."""

    def __init__(self, size: int = 30_000, seed: int = 1) -> None:
        chance = random.Random(seed)
        words = dict.fromkeys(_COMMON.split())
        while len(words) < size:
            words[_word(chance)] = None
        self.words = list(words)[:size]
        self._weights = list(accumulate(1 / (rank + 8) for rank in range(size)))

    def choose(self, chance: random.Random, count: int) -> list[str]:
        """So many words, each as often as its rank says."""
        return chance.choices(self.words, cum_weights=self._weights, k=count)

    def share(self, rank: int) -> float:
        """The part of all words of a text that this one makes up."""
        return 1 / (rank + 8) / self._weights[-1]

    def paragraph(self, chance: random.Random, count: int) -> str:
        """A sentence or a few, in lines of at most 72 characters with LF between."""
        lines, line = [], ""
        for word in self.choose(chance, count):
            if len(line) + len(word) > 70:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}" if line else word
        lines.append(line + ".")
        return "\n".join(lines).capitalize()


def _word(chance: random.Random) -> str:
    onsets, vowels, endings = _PARTS
    syllables = [
        chance.choice(onsets) + chance.choice(vowels) + (chance.choice(endings) if chance.random() < 0.5 else "")
        for _ in range(chance.choice((1, 2, 2, 2, 3, 3, 4)))
    ]
    return "".join(syllables)
