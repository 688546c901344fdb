"""Which folder plays which role: as people chose, as the server says (RFC 6154), or as its name tells."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from mailbox_appliance.model.records import FolderRole, ListedFolder, RoleSource

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

# The names that mail programs and providers give, the usual one first: it wins where a mailbox has several.
# English, German, French, Spanish, Italian, Dutch, Polish, Portuguese, Swedish, Danish and Norwegian.
_NAMES: dict[FolderRole, str] = {
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


def _plain(name: str) -> str:
    """A name for comparing: without case, accents may be composed or not (NFC), `_` as a space."""
    return unicodedata.normalize("NFC", name).casefold().replace("_", " ").strip()


_RANKS: dict[FolderRole, dict[str, int]] = {
    role: {_plain(name): rank for rank, name in enumerate(names.split(";"))} for role, names in _NAMES.items()
}
_PREFIXES = frozenset({"inbox", "[gmail]", "[google mail]"})


def assign(
    listed: Sequence[ListedFolder], mapped: Mapping[FolderRole, str] | None = None
) -> dict[str, tuple[FolderRole, RoleSource]]:
    """The role of each folder that plays one, by path, and who says so. No role twice, no folder twice.

    What people chose comes first, then the server's word, then well-known names. INBOX is fixed by RFC 9051 5.1, and so
    counts as the server's word. `mapped` may name a folder that is not there: then that role stays free for others.

    On a server with labels the server's word is the only one: what it calls a role is done by labels, wherever people
    or names would have it.
    """
    folders = [folder for folder in listed if not folder.attributes & _NO_MAIL]
    is_labeled = any(folder.label is not None for folder in folders)
    assigned: dict[str, tuple[FolderRole, RoleSource]] = {}
    taken: set[FolderRole] = set()
    for path, role, source in _proposals(folders, mapped or {}):
        if is_labeled and source != "extension":
            continue
        if path not in assigned and role not in taken:
            assigned[path] = (role, source)
            taken.add(role)
    return assigned


def _proposals(
    folders: Sequence[ListedFolder], mapped: Mapping[FolderRole, str]
) -> Iterator[tuple[str, FolderRole, RoleSource]]:
    """Who could play what, the strongest word first."""
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
        return  # most folders are labels there, and the server says of each of its own what it is for
    for role, names in _RANKS.items():
        found_names = ((names[name], folder.path) for folder in folders if (name := _short_name(folder)) in names)
        for _, path in sorted(found_names, key=lambda each: each[0]):
            yield path, role, "name"


def _short_name(folder: ListedFolder) -> str:
    """The name for comparing, without a leading `INBOX.` or `[Gmail]/`; empty for a folder inside another one."""
    steps = folder.path.split(folder.delimiter) if folder.delimiter else [folder.path]
    if len(steps) == 2 and steps[0].casefold() in _PREFIXES:
        steps = steps[1:]
    return _plain(steps[0]) if len(steps) == 1 else ""
