"""Space that means nothing goes; whatever means something stays as it is."""

import pytest

from mailbox_appliance.web.console_files import minify_script

CASES: tuple[tuple[str, str], ...] = (
    ("const a = 1;\nconst b = 2;\n", "const a=1;const b=2;"),
    ("return\n x", "return x"),
    ("a + +b - -c + ++d", "a+ +b- -c+ ++d"),
    ("f(a, b,\n);\nconst [, one] = [1, 2,\n];", "f(a,b);const[,one]=[1,2];"),
    ('say("a  b", \'c  "d\');', 'say("a  b",\'c  "d\');'),
    (r'say("a \"  b");', r'say("a \"  b");'),
    ("a = `x  y ${ b  + `z  ${ {c : 1}  } ` } ) , ] }`;", "a=`x  y ${b+`z  ${{c:1}} `} ) , ] }`;"),
    (r"a = `\`  ${b} $  \${ c }`;", r"a=`\`  ${b} $  \${ c }`;"),
    ("a = /[/ ]  \"/g.test(b) ? c / d / e : f(/ \\/ /);", "a=/[/ ]  \"/g.test(b)?c/d/e:f(/ \\/ /);"),
    ("return / '/.test(a);", "return/ '/.test(a);"),
    ("(a) / b; c[0] / d; `e` / f; // g / h \ni;", "(a)/b;c[0]/d;`e`/f;i;"),
    ("a /* b */ = c; /* d\n */ e;", "a=c;e;"),
    ("const { a, b: { c }, } = d;", "const{a,b:{c}}=d;"),
    ("if (a) {\n  b();\n} else {\n  c();\n}", "if(a){b();}else{c();}"),
    ("x = é in y;", "x=é in y;"),
)  # fmt: skip


@pytest.mark.parametrize(("source", "less"), CASES, ids=range(len(CASES)))
def test_space_that_means_nothing_goes(source: str, less: str) -> None:
    assert minify_script(source) == less
    assert minify_script(less) == less


@pytest.mark.parametrize("source", ["a = `b", "a = `b ${c}", 'a = "b'])
def test_what_has_no_end_is_told(source: str) -> None:
    with pytest.raises(ValueError, match="no"):
        minify_script(source)
