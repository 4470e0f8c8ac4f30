"""Front matter: what a Markdown file says of itself, as YAML between two lines `---`."""

import re
from typing import Any, Final

_FORM: Final = re.compile(
    r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_SHOWN: Final = 200


def read_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """What stands in the front matter by its keys, and the text behind it.

    Raises:
        ValueError: There is none, or it cannot be read; says why, to follow the file's name.
    """
    from ..policy.parts import read_yaml  # noqa: PLC0415 - who has such files pays for it

    found = _FORM.match(text)
    if found is None:
        msg = "has no front matter: begin it with a line ---, keys such as name: …, and --- again"
        raise ValueError(msg)
    try:
        said = read_yaml(found[1])
    except ValueError as error:
        msg = f"has front matter that is no YAML that can be read ({str(error)[:_SHOWN]})"
        raise ValueError(msg) from error
    if not isinstance(said, dict):
        msg = "has front matter without keys: write lines such as name: …"
        raise ValueError(msg)  # noqa: TRY004 - what a file holds is a value
    return {str(key): value for key, value in said.items()}, text[found.end() :]
