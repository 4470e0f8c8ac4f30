"""A company's folder: what `company.yaml` says of it; its policy and its articles stand beside."""

import difflib
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ..policy.desk.articles import ArticleFields
from ..policy.desk.company import COMPANY_FILE, Company
from ..state.errors import SettingsError
from ..state.limits import read_file

_POLICY: Final = "policy.yaml"
_KEYS: Final = tuple(name for name in Company.model_fields if name not in {"folder", "policy"})
_SHOWN: Final = 200


def read_company(folder: str | Path) -> Company:
    """Read the company of a folder.

    Raises:
        SettingsError: There is none, or its file is wrong; says which, where and what to do.
    """
    file = Path(folder).expanduser() / COMPANY_FILE
    said = _read_yaml(file)
    if unknown := next((key for key in said if key not in _KEYS), ""):
        near = difflib.get_close_matches(unknown, _KEYS, n=1)
        meant = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(_KEYS)}."
        raise _make_error(file, f"has no key {unknown!r}: {meant}")
    try:
        policy = file.with_name(_POLICY)
        rules = str(policy) if policy.is_file() else ""
        return Company(**said, folder=str(file.parent), policy=rules)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        if first["type"] == "extra_forbidden":
            first["msg"] = f"there is no such key, but {', '.join(ArticleFields.model_fields)}"
        raise _make_error(file, f"{where}: {first['msg']}.") from error


def _read_yaml(file: Path) -> dict[str, Any]:
    from ..policy.parts import read_yaml  # noqa: PLC0415 - only a desk pays for it

    try:
        said = read_yaml(read_file(file, "rules"))
    except OSError as error:
        why = "has no company.yaml that can be read, as examples/shop/lumen has one"
        raise _make_error(file.parent, f"{why} ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise _make_error(file, "is no UTF-8 text: save it as UTF-8.") from error
    except ValueError as error:
        raise _make_error(file, f"is no YAML that can be read ({str(error)[:_SHOWN]}).") from error
    if not isinstance(said, dict) or not said.get("name"):
        raise _make_error(file, "has no name: write lines such as `name: Lumen`.")
    return {str(key): value for key, value in said.items()}


def _make_error(path: Path, what: str) -> SettingsError:
    return SettingsError(f"The company {str(path)!r} {what}")
