"""What the icon and its menu can be asked on D-Bus, in the words that D-Bus has for it; desktops and people read it."""

ITEM = "org.kde.StatusNotifierItem"
PATH = "/StatusNotifierItem"
#: Where menus lie that programs of KDE show, too.
MENU_PATH = "/MenuBar"

_ITEM_PROPERTIES = {
    "Category": "s",
    "Id": "s",
    "Title": "s",
    "Status": "s",
    "WindowId": "i",
    "IconName": "s",
    "IconThemePath": "s",
    "IconPixmap": "a(iiay)",
    "OverlayIconName": "s",
    "OverlayIconPixmap": "a(iiay)",
    "AttentionIconName": "s",
    "AttentionIconPixmap": "a(iiay)",
    "AttentionMovieName": "s",
    "ToolTip": "(sa(iiay)ss)",
    "ItemIsMenu": "b",
    "Menu": "o",
}
_MENU_PROPERTIES = {"Version": "u", "TextDirection": "s", "Status": "s", "IconThemePath": "as"}
#: Methods and signals: what goes in, what comes out.
_ITEM_METHODS = {
    "ContextMenu": ("i i", ""),
    "Activate": ("i i", ""),
    "SecondaryActivate": ("i i", ""),
    "Scroll": ("i s", ""),
}
_ITEM_SIGNALS = dict.fromkeys(("NewTitle", "NewIcon", "NewAttentionIcon", "NewToolTip"), "") | {"NewStatus": "s"}
_MENU_METHODS = {
    "GetLayout": ("i i as", "u (ia{sv}av)"),
    "GetGroupProperties": ("ai as", "a(ia{sv})"),
    "GetProperty": ("i s", "v"),
    "Event": ("i s v u", ""),
    "EventGroup": ("a(isvu)", "ai"),
    "AboutToShow": ("i", "b"),
    "AboutToShowGroup": ("ai", "ai ai"),
}
_MENU_SIGNALS = {"ItemsPropertiesUpdated": "a(ia{sv}) a(ias)", "LayoutUpdated": "u i"}


def described(path: str) -> str:
    """The description of what lies at `path`; what lies below it, for every other."""
    if path == PATH:
        within = _interface(ITEM, _ITEM_PROPERTIES, _ITEM_METHODS, _ITEM_SIGNALS)
    elif path == MENU_PATH:
        within = _interface("com.canonical.dbusmenu", _MENU_PROPERTIES, _MENU_METHODS, _MENU_SIGNALS)
    else:
        below = (PATH, MENU_PATH) if path == "/" else ()
        within = "".join(f'<node name="{each.removeprefix("/")}"/>' for each in below)
    return f"<node>{within}</node>"


def _interface(
    name: str, properties: dict[str, str], methods: dict[str, tuple[str, str]], signals: dict[str, str]
) -> str:
    told = [f'<property name="{each}" type="{kind}" access="read"/>' for each, kind in properties.items()]
    for each, (taken, given) in methods.items():
        told.append(f'<method name="{each}">{_arguments(taken, "in")}{_arguments(given, "out")}</method>')
    told += [f'<signal name="{each}">{_arguments(given)}</signal>' for each, given in signals.items()]
    return f'<interface name="{name}">{"".join(told)}</interface>'


def _arguments(types: str, direction: str = "") -> str:
    towards = f' direction="{direction}"' if direction else ""
    return "".join(f'<arg type="{each}"{towards}/>' for each in types.split())
