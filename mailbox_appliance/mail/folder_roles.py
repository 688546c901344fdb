"""Find out which folder is Inbox, Sent, Trash and so on (RFC 6154), and the labels of servers such as Gmail
(X-GM-EXT-1).

The role of a folder is the one that members of the mailbox chose. Otherwise it comes from the server, otherwise from
the folder's name.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mailbox_appliance.model.accounts import FolderRole, RoleSource
from mailbox_appliance.model.sync import ListedFolder

_SPECIAL_USE: dict[str, FolderRole] = {  # RFC 6154 2
    "\\sent": "sent",
    "\\drafts": "drafts",
    "\\trash": "trash",
    "\\junk": "spam",
    "\\archive": "archive",
    "\\all": "all",
    "\\flagged": "starred",
}
_NO_MAIL = frozenset({"\\noselect", "\\nonexistent"})

# Names that mail programs and providers use, the most common first: it wins if a mailbox has several. English, German,
# French, Spanish, Italian, Dutch, Polish, Portuguese, Swedish, Danish and Norwegian.
_ROLE_NAMES: dict[FolderRole, str] = {
    "sent": """Sent; Sent Items; Sent Mail; Sent Messages; Gesendet; Gesendete Elemente; Gesendete Objekte;
        Gesendete Nachrichten; Envoyés; Éléments envoyés; Messages envoyés; Courrier envoyé; Enviados;
        Elementos enviados; Mensajes enviados; Correo enviado; Inviati; Inviata; Posta inviata; Elementi
        inviati; Messaggi inviati; Verzonden; Verzonden items; Verzonden berichten; Wysłane; Elementy
        wysłane; Wiadomości wysłane; Itens enviados; Mensagens enviadas; E-mails enviados; E-mail enviados;
        Skickat; Skickade; Skickade objekt; Skickade meddelanden; Sendt; Sendte elementer; Sendt post;
        Sendte""",
    "drafts": """Drafts; Draft; Entwürfe; Entwurf; Brouillons; Brouillon; Borradores; Borrador; Bozze; Bozza;
        Concepten; Concept; Wersje robocze; Robocze; Szkice; Rascunhos; Rascunho; Utkast; Kladder; Kladde""",
    "trash": """Trash; Deleted Items; Deleted Messages; Deleted; Bin; Papierkorb; Gelöscht; Gelöschte Elemente;
        Gelöschte Objekte; Corbeille; Éléments supprimés; Messages supprimés; Papelera; Papelera de
        reciclaje; Elementos eliminados; Eliminados; Cestino; Posta eliminata; Elementi eliminati;
        Prullenbak; Verwijderde items; Verwijderd; Kosz; Elementy usunięte; Usunięte; Lixo; Lixeira; Itens
        excluídos; Itens eliminados; Papperskorg; Papperskorgen; Borttaget; Borttagna objekt; Papirkurv;
        Papirkurven; Slettet post; Slettede elementer""",
    "spam": """Spam; Junk; Junk Email; Junk E-mail; Junk Mail; Bulk Mail; Spamverdacht; Unerwünscht; Junk-E-Mail;
        Werbung; Indésirables; Courrier indésirable; Pourriel; Correo no deseado; No deseado; Posta
        indesiderata; Indesiderata; Ongewenste e-mail; Ongewenst; Ongewenste reclame; Wiadomości-śmieci;
        Niechciane; Lixo eletrônico; Lixo eletrónico; Correio não solicitado; Skräppost; Uønsket e-post;
        Uønsket mail; Søppelpost""",
    "archive": """Archive; Archives; Archiv; Archivo; Archivados; Archivio; Archivi; Archief; Archiwum; Arquivo;
        Arquivados; Arquivo morto; Arkiv; Arkiverat""",
    "all": """All Mail; All Messages; Alle Nachrichten; Alle E-Mails; Tous les messages; Todos; Todos los correos;
        Tutti i messaggi; Tutta la posta; Alle berichten; Alle e-mail; Wszystkie; Cała poczta; Todos os
        e-mails; Todo o correio; Alla mail; Alla e-postmeddelanden; Al e-post; All e-post""",
    "starred": """Starred; Flagged; Markiert; Suivis; Messages suivis; Destacados; Con estrella; Speciali; Met ster;
        Oznaczone gwiazdką; Com estrela; Stjärnmärkt; Stjernemarkert; Stjernemarkeret""",
}


def _comparable_name(name: str) -> str:
    """Return a folder name in the form for comparisons: case-folded, accents composed (NFC), and spaces in place of
    `_`.
    """
    return unicodedata.normalize("NFC", name).casefold().replace("_", " ").strip()


_RANKS: dict[FolderRole, dict[str, int]] = {
    role: {_comparable_name(name): rank for rank, name in enumerate(names.split(";"))}
    for role, names in _ROLE_NAMES.items()
}
_PREFIXES = frozenset({"inbox", "[gmail]", "[google mail]"})


def assign_roles(
    listed: Sequence[ListedFolder], mapped: Mapping[FolderRole, str] | None = None
) -> dict[str, tuple[FolderRole, RoleSource]]:
    """Return role and source of the role for each folder that has one, by path. Each role and each folder occurs at
    most once.

    The order of priority is `mapped` (the choice of the mailbox's members), then the server's attributes, then
    well-known names. The role of INBOX is fixed by RFC 9051 5.1, and its source is the server. If `mapped` names a
    folder that does not exist, another folder may get the role.

    On a server with labels, such as Gmail, only the server's attributes count, because the server ties roles to its own
    labels.
    """
    folders = [folder for folder in listed if not folder.attributes & _NO_MAIL]
    is_labeled = any(folder.label is not None for folder in folders)
    assigned: dict[str, tuple[FolderRole, RoleSource]] = {}
    taken: set[FolderRole] = set()
    for path, role, source in _propose_roles(folders, mapped or {}):
        if is_labeled and source != "extension":
            continue
        if path not in assigned and role not in taken:
            assigned[path] = (role, source)
            taken.add(role)
    return assigned


def _propose_roles(
    folders: Sequence[ListedFolder], mapped: Mapping[FolderRole, str]
) -> Iterator[tuple[str, FolderRole, RoleSource]]:
    """Yield possible roles: path, role, and source of the role. The source with the highest priority comes first; the
    caller uses the first proposal for each role and folder.
    """
    for folder in folders:
        if folder.path.upper() == "INBOX":
            yield folder.path, "inbox", "extension"
    paths = {unicodedata.normalize("NFC", folder.path): folder.path for folder in folders}
    for role, path in mapped.items():
        if found := paths.get(unicodedata.normalize("NFC", path)):
            yield found, role, "user"
    for folder in folders:
        for attribute, role in _SPECIAL_USE.items():
            if attribute in folder.attributes:
                yield folder.path, role, "extension"
    if any(folder.label is not None for folder in folders):
        return  # most folders are labels there, and the server reports the role of each of its own
    for role, names in _RANKS.items():
        found_names = ((names[name], folder.path) for folder in folders if (name := _short_name(folder)) in names)
        for _, path in sorted(found_names, key=lambda each: each[0]):
            yield path, role, "name"


def _short_name(folder: ListedFolder) -> str:
    """Return the folder's name in the form for comparisons, without a leading `INBOX.` or `[Gmail]/`."""
    steps = folder.path.split(folder.delimiter) if folder.delimiter else [folder.path]
    if len(steps) == 2 and steps[0].casefold() in _PREFIXES:
        steps = steps[1:]
    return _comparable_name(steps[0]) if len(steps) == 1 else ""


# --- Labels (X-GM-EXT-1): their names, and which folder shows which label ---
#
# Each message is in one place: in the folder of all mail, in spam, or in trash. Every other folder shows the messages
# with a label. Two labels are flags as well (`\Draft`, `\Flagged`), and are stored as flags.
# (developers.google.com/workspace/gmail/imap/imap-extensions, "Access to the Gmail labels")


INBOX_LABEL, SENT_LABEL, IMPORTANT_LABEL = "\\Inbox", "\\Sent", "\\Important"
#: Labels that are flags, by their name in lower case.
LABEL_FLAGS = {"\\draft": "\\Draft", "\\drafts": "\\Draft", "\\starred": "\\Flagged"}
#: System labels, by their name in lower case: users cannot create, name, add or remove them as labels.
SYSTEM_LABELS = {
    name.lower(): name for name in (INBOX_LABEL, SENT_LABEL, IMPORTANT_LABEL, "\\Muted", "\\Trash", "\\Spam")
}
_ALL_MAIL = "\\all"
#: Names of system labels for people, and of the folders that show them: no user label has such a name, in any case.
_RESERVED_NAMES = frozenset(
    {*LABEL_FLAGS, *(name.lstrip("\\") for name in (*LABEL_FLAGS, *SYSTEM_LABELS)), "unread", "all mail", "chats"}
)
#: $Forwarded records that a message was forwarded (RFC 9051 2.3.2), and is stored as a flag.
_FORWARDED = "$forwarded"
_OWN_FOLDERS = ("[gmail]", "[google mail]")
MAX_LABEL_NAME = 1000  # characters
_FOLDERS_WITH_MESSAGES = frozenset({_ALL_MAIL, "\\junk", "\\trash"})
_LABELS_BY_ATTRIBUTE = {
    "\\sent": SENT_LABEL,
    "\\drafts": "\\Draft",
    "\\flagged": "\\Flagged",
    "\\important": IMPORTANT_LABEL,
}


def canonical_label(label: str) -> str:
    """Return a label in the form in which it is stored among the flags. A system label gets its standard spelling, such
    as `\\Inbox` for `\\INBOX` and `\\Flagged` for `\\Starred`. Any other label stays unchanged.
    """
    lowered = label.lower()
    return LABEL_FLAGS.get(lowered) or SYSTEM_LABELS.get(lowered) or label


def is_user_label(flag: str) -> bool:
    """Whether an entry among the stored flags of a message is a label that a user created.

    System flags and system labels begin with a backslash; labels do not.
    """
    return not flag.startswith("\\")


def is_valid_label_name(label: str) -> bool:
    """Whether users may add or remove a label of this name. Names of system labels and of their folders are
    reserved.
    """
    lowered = label.strip().lower()
    is_own = lowered in _RESERVED_NAMES or lowered == _FORWARDED or lowered.startswith(("\\", *_OWN_FOLDERS))
    return bool(lowered) and not is_own and len(label) <= MAX_LABEL_NAME and not any(map(_is_control, label))


def _is_control(character: str) -> bool:
    # Joiners, soft hyphens and wide spaces are part of words in many languages.
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")


def label_of_folder(folder: ListedFolder) -> str | None:
    """Return the label whose messages a folder shows, on a server with labels such as Gmail. None for the folders of
    all mail, spam and trash, which contain the messages themselves.
    """
    if folder.attributes & _FOLDERS_WITH_MESSAGES:
        return None
    if folder.path.upper() == "INBOX":
        return INBOX_LABEL
    return next((label for name, label in _LABELS_BY_ATTRIBUTE.items() if name in folder.attributes), folder.path)


def find_all_mail(listed: Iterable[ListedFolder]) -> str | None:
    """Return the path of the folder that contains all messages except spam and trash. None if the server does not list
    it.
    """
    return next((folder.path for folder in listed if _ALL_MAIL in folder.attributes), None)
