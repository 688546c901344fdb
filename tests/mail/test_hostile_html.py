"""HTML whose styles and nesting should take long, or should evade a bound."""

import time

import pytest

from mailbox_appliance.mail.html.analysis import extract_visible


@pytest.mark.parametrize(
    "html",
    [
        "<div style='font-size:0'>" * 20_000 + "x" + "</div>" * 20_000,
        f"<style>{'.x{display:block}' * 10_000}</style>{'<p class=x>' * 10_000}",
        f"<style>{''.join(f'.x.y{number}{{color:red}}' for number in range(8_000))}</style>"
        + "".join(f"<p class='x z{number}'>" for number in range(8_000)),
        f"<style>{''.join(f'.a .b .c{number} p{{color:red}}' for number in range(500))}.a .b .a p{{color:red}}</style>"
        + "<div class='a b'>" * 1_000
        + "".join(f"<p id=q{number}></p>" for number in range(2_000)),
        "<style>" + "div i{color:red}" * 4_000 + "</style><div>" + "<i>x</i>" * 2_500,
        f"<style>{''.join(f'.a{number} i{{color:red}}' for number in range(4_000))}</style>" + "<p><i>x</i>" * 8_000,
        "<style>div i{color:red}</style>" + "<div>" * 1_990 + "<b><i>x</i></b>" * 10_000,
        f"<style>{'i,' * 100_000}i{{display:none}}</style><i>x</i>",
        f"<style>{'/*' * 200_000}</style>",
        f"<style>{'@media screen{' * 20_000}</style>",
        f"<p style='{'x:(' * 200_000}'>",
        f"<p style='{'color:red;' * 50_000}'>",
        f"<p class='{' '.join(map(str, range(100_000)))}' style=color:red>",
        f"<style>{'p:last-child{color:red}' * 10_000}</style>{'<p class=x>x' * 10_000}",
        f"<style>{'a,' * 3_000}a{{{''.join(f'&.b{number}{{color:red}}' for number in range(3_000))}}}</style><p>x",
        f"<style>{'a{b{c{d{e{f{display:none}}}}}}' * 10_000}</style><p>x",
        f"<style>{'a{' * 200_000}</style><p>x",
        f"<style>{'x' * 480}{{{('&' * 12 + '{color:red}') * 20_000}}}</style><p>x",
        f"<style>@import{' ' * 400_000}</style><p>x",
        f"<style>{'@layer ' * 100_000}</style><p>x",
        f"<style>@layer{' ' * 400_000}</style><p>x",
        f"<style>@supports ({' ' * 300_000}{{p{{color:red}}}}</style><p>x",
        f"<p style='background:linear-gradient({'#fff,' * 200_000}#000)'>x",
        f"<p style='background:url({' ' * 200_000}'>x",
        f"<p style='width:{'calc(' * 100_000}'>x",
        f"<p style='color:{'var(' * 100_000}'>x",
        "<p style='color:oklch(1 0 0)'>x" * 50_000,
        "<table>" + "<col span=1000 style=visibility:collapse>" * 5_000 + "<tr>" + "<td colspan=1000>x" * 5_000,
    ],
    ids=range(28),
)
def test_a_lot_of_malice_takes_no_time(html: str) -> None:
    start = time.process_time()
    extract_visible(html, "html")
    assert time.process_time() - start < 5  # mostly below 1 here; quadratic reading would take hours


def test_where_a_bound_is_passed_what_hides_counts_and_nothing_else() -> None:
    rules = "".join(f".x{number}{{color:red}}" for number in range(40_000))
    page = f"<style>{rules}.a{{display:none}}</style><p class=a>X</p><p>Y</p>"
    assert extract_visible(page, "text")[0] == "Y"
    deep = "<div>" * 2_500 + "<p style='display:none'>X<p style='display:block'>X</div>" + "</div>" * 2_499 + "Y"
    assert "X" not in extract_visible(deep, "text")[0]
    assert "Y" in extract_visible(deep, "text")[0]
    assert "X" not in extract_visible("<div>" * 2_000 + "<div style='display:none'></x></b></p>X</div>", "text")[0]
