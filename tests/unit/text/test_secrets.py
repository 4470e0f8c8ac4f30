"""What counts as a secret, and in which spellings it is found."""

import base64
import json
import string
import time
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

from loopwright.text.secrets import (
    MASK,
    Secrets,
    find_header_secrets,
    find_secrets,
    is_masked,
    is_secret_name,
)

WORD = 'pa55"word/with-ünïcode+&'


@pytest.mark.req("W-50")
@pytest.mark.parametrize(
    "spelled",
    [
        WORD, json.dumps(WORD, ensure_ascii=False)[1:-1], quote(WORD, safe=""),
        base64.b64encode(WORD.encode()).decode(),
        quote(WORD, safe="").replace("%2F", "%2f").replace("%C3", "%c3")
        .replace("%BC", "%bc").replace("%AF", "%af").replace("%2B", "%2b"),
        WORD.encode().hex().upper(),
    ],
)  # fmt: skip
def test_a_secret_is_found_in_every_spelling(spelled):
    secrets = Secrets(find_secrets([("DB_PASSWORD", WORD)]))
    assert secrets.mask_text(f"<{spelled}>") == f"<{MASK}>"
    assert secrets.mask_json([{spelled: [spelled]}]) == [{MASK: [MASK]}]
    assert is_masked(secrets.mask_json({"a": [{"b": spelled}]}))


@pytest.mark.req("W-50")
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "u", "ab", "ada:", "a name:"])
@pytest.mark.parametrize("behind", ["", "\n", "; more"])
def test_a_secret_is_found_in_base64_of_a_text_around_it(encode, before, behind):
    secrets = Secrets(find_secrets([("DB_PASSWORD", WORD)]))
    packed = encode(f"{before}{WORD}{behind}".encode()).decode()
    for text in (packed, packed.rstrip("=")):
        told = secrets.mask_text(f"sent Basic {text}")
        assert MASK in told
        assert len(told) - len(f"sent Basic {MASK}") <= len(before) * 2 + len(behind) * 2 + 4


@pytest.mark.req("W-50")
@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("FLAG_TOKEN", "true", "true it is"),
        ("AUTH_MODE", "interactive", "interactive"),
        ("MAX_TOKENS", "10000000", "10000000"),
        ("PWD", "/home/ada/work", "/home/ada/work"),
        ("SHOP_SECRET", "customer", "customers"),
        ("DATABASE_URL", "postgres://h/orders", "postgres://h/orders"),
    ],
)  # fmt: skip
def test_words_that_texts_hold_for_other_reasons_stay(name, value, text):
    assert Secrets(find_secrets([(name, value)])).mask_text(text) == text


@pytest.mark.req("W-50")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("DATABASE_URL", "postgres://ada:swordfish@h/db", "swordfish"),
        ("DATABASE_URL", "postgres://ada:pw@h/db", "://ada:pw@"),
        ("REPO", "https://ghp_abcdefghijklmnop1234@example.com/x", "ghp_abcdefghijklmnop1234"),
        ("HOOK", "https://example.com/x?api_key=abcdefgh1", "abcdefgh1"),
        ("SHOP_DSN", "host=h password=swordfish dbname=x", "swordfish"),
        ("ODBC", "Server=h;Uid=u;Pwd=s3cretpw99;", "s3cretpw99"),
        ("G_CREDENTIALS", '{"private_key": "abcdefghij", "id": "x"}', "abcdefghij"),
        ("SIGNING_KEY", "-----BEGIN-----\nAAAABBBBCCCCDDDD1\n-----END-----", "AAAABBBBCCCCDDDD1"),
    ],
)
def test_credentials_inside_a_value_are_secrets(name, value, said):
    assert Secrets(find_secrets([(name, value)])).mask_text(f"({said})") == f"({MASK})"


@pytest.mark.req("W-50")
def test_headers_are_secrets_but_for_those_about_the_format():
    basic = base64.b64encode(b"ada:swordfish").decode()
    headers = {
        "Authorization": f"Basic {basic}",
        "Accept": "application/json",
        "Cookie": "a=cookie-1",
    }
    secrets = Secrets(find_header_secrets(headers))
    for said in (basic, "swordfish", "cookie-1"):
        assert secrets.mask_text(said) == MASK
    assert secrets.mask_text("application/json Basic") == "application/json Basic"
    assert is_secret_name("X-Api-Key")


ALPHABET = string.ascii_letters + string.digits + "+/=-_.!"
SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "capitals": str.upper,
    "spread": " ".join,
    "broken": lambda piece: "\r\n\t".join(piece[i : i + 5] for i in range(0, len(piece), 5)),
    "no width": "\u200b\u2060\ufeff".join,
    "accents and tags": "\u0301\U000e0041\x08".join,
    "soft hyphens": "\u00ad".join,
    "escapes": lambda piece: "".join(f"\\u{ord(c):04X}" for c in piece),
    "escaped twice": lambda piece: "".join(f"\\\\u{ord(c):04x}" for c in piece),
    "line breaks in JSON": "\\n".join,
    "percent": lambda piece: "".join(f"%{ord(c):02x}" for c in piece),
    "percent twice": lambda piece: "".join(f"%25{ord(c):02X}" for c in piece),
    "decimal entities": lambda piece: "".join(f"&#{ord(c)};" for c in piece),
    "open entities": lambda piece: "".join(f"&#{ord(c)}" for c in piece),
    "hexadecimal entities": lambda piece: "".join(f"&#x{ord(c):X};" for c in piece),
}


@pytest.mark.req("W-129")
@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
@given(data=st.data(), secret=st.text(ALPHABET, min_size=20, max_size=60))
def test_twelve_characters_of_a_secret_are_masked_however_they_are_spelled(spell, data, secret):
    secret = f"k{secret}"  # no path
    length = data.draw(st.integers(12, len(secret)))
    start = data.draw(st.integers(0, len(secret) - length))
    spelled = spell(secret[start : start + length])
    secrets = Secrets([secret])
    told = secrets.mask_text(f"It is “{spelled}”, she said.")
    assert told == f"It is “{MASK}”, she said."
    assert secrets.mask_json({"a": [spelled]}) == {"a": [MASK]}


@pytest.mark.req("W-129")
def test_what_is_shorter_or_stands_in_other_texts_for_other_reasons_stays():
    paths = ["/home/ada/.config/keys/desk.json", "https://desk.example.com/hooks/of/ada"]
    secrets = Secrets(["swordfish-of-the-deep-sea", *paths])
    for text in (
        "a swordfish-o",
        "f-the-deep-",
        "/home/ada/.config/notes.md",
        "https://desk.example.com",
    ):
        assert secrets.mask_text(text) == text
    assert MASK in secrets.mask_text(paths[0])
    assert not is_masked(secrets.mask_json({"swordfish": ["of-the-deep"]})), "two texts are two"


@pytest.mark.req("W-129")
@pytest.mark.parametrize(
    "unit", ["a plain word ", "%25", "\\", "\\u0041", "&amp", "k0123456789 ", "İ"]
)
def test_a_long_text_is_looked_at_in_linear_time(unit):
    secrets, took = Secrets(["k0123456789abcdefghij"]), []
    for size in (50_000, 400_000):
        text, began = unit * (size // len(unit)), time.process_time()
        assert secrets.mask_text(text) == text
        took.append(time.process_time() - began)
    assert took[1] < 8 * 4 * took[0] + 0.1
