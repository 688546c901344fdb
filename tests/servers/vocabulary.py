"""Words as a language has them: few that are everywhere, many that are rare (Zipf's law).

`Vocabulary` makes its rare words of random syllables. `MailVocabulary` derives them from stems of four languages, as
languages do, so that many words share their first letters and their lengths are those of mail.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product

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

    def __init__(self, size: int = 30_000, seed: int = 1, words: Sequence[str] | None = None) -> None:
        """`words`: the words in place of made ones, the most frequent first."""
        self.words = list(words) if words is not None else _syllables(size, random.Random(seed))
        self._weights = list(accumulate(1 / (rank + 8) for rank in range(len(self.words))))

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


def _syllables(size: int, chance: random.Random) -> list[str]:
    words = dict.fromkeys(_COMMON.split())
    while len(words) < size:
        words[_word(chance)] = None
    return list(words)[:size]


def _word(chance: random.Random) -> str:
    onsets, vowels, endings = _PARTS
    syllables = [
        chance.choice(onsets) + chance.choice(vowels) + (chance.choice(endings) if chance.random() < 0.5 else "")
        for _ in range(chance.choice((1, 2, 2, 2, 3, 3, 4)))
    ]
    return "".join(syllables)


# --- Words as mail has them: stems with the prefixes and endings of their language, numbers, and references ---


@dataclass(frozen=True)
class _Language:
    """What the words of a language are made of. `share`: the part of all messages that are written in it."""

    share: float
    common: str
    stems: str
    prefixes: str
    endings: str
    has_compounds: bool = False


_LANGUAGES = (
    _Language(
        0.55,
        """
        the to and of a in is for you i we on it this that with be your have are will as at our not please if from can
        by all or me an my so any but was thanks has let do know would no there up us out they just get what time also
        which new one more when see need like here best week now could email been send only should about hi next first
        day call meeting after some other how regards work today sent make help dear am his he their were she them well
        many good questions attached information team date back per change order below may sure look following note
        """,
        """
        account act address advise agree amend announce answer apply appoint approve arrange assign assist attach attend
        author balance base bill board book budget build business call cancel care cash change charge check claim class
        clear client close collect comment commit common compare complete condition confirm connect consider consult
        contact content continue contract control correct cost count cover create credit current custom daily data deal
        debt decide declare deduct define delay deliver depart deposit describe design detail develop differ direct
        discount discuss display district document draft due edit effect employ enclose engage enter equip estimate
        event exact exam example exceed exchange expect expense explain export express extend factor feature file final
        finance find fix follow force forecast form forward fund future general grant group guarantee guide handle
        import improve include income increase inform initial inquire inspect install instruct insure intend interest
        introduce invest invite invoice issue item join judge keep kind label labor late launch law lead learn lease
        ledger legal level license light limit line link list load local locate maintain major manage manual mark market
        material matter measure member mention merge message method minute model modify month move network notice object
        observe obtain occur offer office open operate option organize origin owner pack paper part partner pass pay
        perform period person phase place plan point policy position possible post prefer prepare present press price
        print private problem process produce profit program project promise proof propose protect provide public
        purchase purpose quality quantity quarter question quote rate reach read reason receive recent recommend record
        reduce refer reflect refund regard regular reject relate release remain remind remove rent repair replace report
        request require research reserve resolve respond result return review revise risk sale sample schedule secure
        select sell separate serve settle share ship sign site solve source special staff standard start state status
        store submit subscribe suggest supply support survey system task tax team technical term test text total track
        trade train transfer transport travel treat trust type unit update use value vendor verify version view visit
        volume vote wait warrant week weight work write
        """,
        "re un pre dis over under out mis inter sub non co de en ex fore post pro semi trans",
        "s ed ing er ers ment ments ation ations able al ally ity ive ly ness or ors ful less ance ant ary ic ism ist",
    ),
    _Language(
        0.2,
        """
        die der und in zu den das nicht von sie ist des sich mit dem dass er es ein ich auf so eine auch als an nach wie
        im für man aber aus durch wenn nur war noch werden bei hat wir was wird sein einen welche sind oder zur um haben
        einer mir über ihm diese einem ihr uns da zum kann doch vor dieser mich ihn du hatte seine mehr am denn nun
        unter sehr selbst schon hier bis habe ihre dann ihnen seiner alle wieder meine zeit gegen vom ganz einzelnen wo
        ohne können grüße anbei bitte danke frau herr termin
        """,
        """
        abend amt anlage antrag arbeit auftrag ausgang bahn bank bau bericht betrag betrieb bild brief buch büro dank
        daten dauer dienst ding druck einkauf erfolg fahr fall farb fehl feld fest firm fläch folg form frag fremd frist
        führ gast gebiet gebühr geld gerät geschäft gesellschaft gesetz gewinn grund gut halt hand handel haupt haus
        heft heim hilf hof inhalt jahr kauf kenn kind klar konto kosten kraft kredit kreis kund kurs lad lag land lauf
        leb leist leit lern lief list lohn lös mahn markt mass meld miet mittag mitglied monat nachricht nam netz nutz
        ordn ort papier pflicht plan platz post preis prüf punkt raum rechn recht red reis ruf sach schaden schein
        schluss schreib schul schutz seit send setz sicht sitz staat stadt stand stell steuer strass stück such tag teil
        tisch titel trag umsätz urlaub verein verkehr vertrag verwalt wahl war wechsel weg werk wert wirk woch wohn
        zahl zeich zeit zeug ziel zimmer zug zweck
        """,
        """
        ab an auf aus be bei durch ein ent er ge her hin miss mit nach ober um un unter ver vor weg weiter wieder zer zu
        """,
        "e en er ern es ung ungen lich liche lichen lichkeit keit heit bar ig ige igen isch los schaft st t te ten",
        has_compounds=True,
    ),
    _Language(
        0.15,
        """
        de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il sont nous vous avec
        votre bonjour merci cordialement je mais ou si leur notre aux comme tout cette bien être fait avons avez peut
        aussi son sa ses même elle sans à côté après jour an deux non oui très ainsi donc encore entre mon ma mes tous
        toute lors ci joint veuillez pouvez madame monsieur date demande
        """,
        """
        abonn accept accord achat actu adress affair agré aid ajout aménag annul appel appliqu apport arrêt assur
        attend avanc bilan bless bureau calcul cess chang charg choisi class command commenc commun compt concern condit
        confirm connaiss conseil considér constat construc contact content contrat contrôl copi crédit décid déclar
        délai demand départ dépens dépos détail développ différ direct dispos document domicil dossier droit effectu
        emploi encaiss engag enregistr enseign entrepris envoi établ étud évalu examin exist expliqu export factur fair
        ferm fiscal fonction form fourni frais garant gest group horair import impos indiqu inform inscri install
        intéress invit joind journ justifi limit livr locat log lou maintien march matièr membr mention merc mess mis
        mod modifi mont moy montr nombr not notifi nouvell objet obten offr opér ordr organis ouvr pai part pass
        permett person plac plan port poss précis prend prépar présent prix problèm procéd produi profess projet propos
        protég quest réalis recev recherch règl regrett régularis rembours rempl rend rencontr rendez répond réserv
        respect rest retard retour réunion sign situ sociét souhait suiv support tarif téléphon termin trait transmett
        transport travail utilis valid vend vérifi vers vis
        """,
        "re dé in im pré sur sous entre contre inter non auto co dis anti ex mal par trans tri",
        "e er ez es ent é ée és ées ant ante ement ements ation ations eur eurs euse able ables if ive ivité age ages",
    ),
    _Language(
        0.1,
        """
        de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le ha me si sin sobre
        este ya entre cuando todo esta ser son dos también fue había era muy años hasta desde está mi porque qué sólo
        han yo hay vez puede todos así nos ni parte tiene él uno donde bien tiempo mismo ese ahora cada e vida otro
        después te otros aunque esa eso hace otra gobierno tan durante siempre día tanto ella saludos gracias adjunto
        """,
        """
        abon acept acord actu acuerd adjunt administr agenc agradec alquil anul aplic apoy aprob archiv asegur asist
        atend aument autoriz avis ayud banc busc calcul cambi cancel cant carg cas celebr cert client cobr comenz compr
        comunic conced condic confirm conoc consegu consider consult contact conten contrat control correg cost cre
        cuent cumpl deb decid declar demor depart deposit desarroll descont describ destin detall dev dirig dispon
        document efectiv eleg emit empez emple empres encontr entreg envi escrib esper establec estim estudi evalu
        examin exist explic export factur fech financ firm form garant gast gestion grup hac import impuest inclu indic
        inform ingres inici inscrib instal interes invit limit llam lleg logr mand maner mejor mencion mes mostr mov
        necesit neg notific obten ocurr ofert oper orden organiz pag particip ped permit person plan plaz pod pregunt
        prepar present prest proç product program promet propon proteg proyect public realiz recib reclam recomend
        reduc regres remit renov repar resolv respond result retras reun revis sal seleccion serv solicit tard termin
        trabaj tramit transfer transport us vend verific viaj visit
        """,
        "re des in im pre sobre sub entre contra inter ante auto co dis ex mal tras trans bi",
        "a o as os ar er ir ando iendo ado ada ados adas ación aciones amiento ador adora able ables mente ista idad",
    ),
)


class MailVocabulary:
    """The words of mail in four languages, about `size` different ones.

    `words`: all of them, the most frequent first. `languages`: the words of each language, and the part of all messages
    that are written in it.
    """

    def __init__(self, size: int = 120_000, seed: int = 1) -> None:
        chance = random.Random(seed)
        self.languages = [
            (Vocabulary(words=list(dict.fromkeys(_words_of(one, int(size * one.share), chance)))), one.share)
            for one in _LANGUAGES
        ]
        frequency: dict[str, float] = {}
        for words, share in self.languages:
            for rank, word in enumerate(words.words):
                frequency[word] = frequency.get(word, 0) + share * words.share(rank)
        self.words = sorted(frequency, key=lambda word: -frequency[word])


def reference(chance: random.Random) -> str:
    """A word that no other message has: an order number, an amount, a date, an identifier of a tracking link."""
    kind = chance.randrange(4)
    if kind == 0:
        return f"{chance.choice(('INV', 'ORD', 'RE', 'PO'))}{chance.randrange(10**7):07}"
    if kind == 1:
        return f"{chance.randrange(10**4)},{chance.randrange(100):02}"
    if kind == 2:
        return f"{chance.randrange(1, 29)}.{chance.randrange(1, 13)}.20{chance.randrange(17, 26)}"
    return f"{chance.getrandbits(64):x}"


def _words_of(language: _Language, count: int, chance: random.Random) -> Iterator[str]:
    """The common words come first, then stems, then derived words, of which short ones are more frequent."""
    common, stems = language.common.split(), language.stems.split()
    chance.shuffle(stems)
    yield from common
    yield from stems
    derived = _derived(stems, language.prefixes.split(), language.endings.split())
    if language.has_compounds:
        derived += [first + second for first, second in product(stems, stems)]
        derived += [word + ending for word in derived[-(len(stems) ** 2) :] for ending in ("en", "s", "ung")]
    chance.shuffle(derived)
    derived = derived[: count - len(common) - len(stems)]
    yield from sorted(derived, key=lambda word: len(word) + chance.uniform(0, 12))


def _derived(stems: Sequence[str], prefixes: Sequence[str], endings: Sequence[str]) -> list[str]:
    return [
        prefix + stem + ending
        for stem, prefix, ending in product(stems, ["", *prefixes], ["", *endings])
        if prefix or ending
    ]
