"""The components as a server's routes, in the form in which `LoadExternalComponent` asks for them.

The script stands in the answer itself. A page cannot send its key along with the address of a
script, so an address alone would work only where the server asks nobody who they are.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ..state.errors import SettingsError, read_variable
from .request_body import read_body

BUNDLE: Final = Path(__file__).with_name("entrypoint.js")
_LONGEST_NAME: Final = 200
# Where somebody opens an answer as a page of its own, nothing in it runs.
_AS_DATA: Final = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
# A page fills in the first of the braces that it finds, so they stand before all other words.
_PLACE: Final = '<script>{const place="{{shadowRootId}}";'
_ONCE: Final = 'if(!globalThis[Symbol.for("LOOPWRIGHT_UI")]){{{bundle}\n}}'
_MOUNT: Final = 'globalThis[Symbol.for("LOOPWRIGHT_UI")].mount({name},place)}}</script>'


def build_script(environ: Mapping[str, str]) -> str:
    """Our components, and behind them those of the operator's file LOOPWRIGHT_COMPONENTS.

    Raises:
        SettingsError: The file cannot be read.
    """
    ours = BUNDLE.read_text(encoding="utf-8")
    own = read_variable(environ, "LOOPWRIGHT_COMPONENTS")
    if own is None:
        return ours
    try:
        return f"{ours}\n;{Path(own).read_text(encoding='utf-8')}"
    except (OSError, UnicodeDecodeError) as error:
        msg = f"LOOPWRIGHT_COMPONENTS names {own}, which cannot be read: {error}."
        raise SettingsError(msg) from error


def build_routes(bundle: str) -> list[Route]:
    """Both routes: the script, and what puts one component of it into a page."""
    once = _ONCE.format(bundle=_escape_script(bundle))

    async def component(request: Request) -> Response:
        name = _parse_name(await read_body(request, "component"))
        if name is None:
            return PlainTextResponse('Send {"name": "<component>"} as JSON.', status_code=422)
        mount = _MOUNT.format(name=_escape_script(json.dumps(name)))
        return Response(f"{_PLACE}{once}{mount}", media_type="text/html", headers=_AS_DATA)

    async def entrypoint(_: Request) -> Response:
        return Response(bundle, media_type="text/javascript", headers=_AS_DATA)

    return [
        Route("/ui/{graph}", component, methods=["POST"]),
        Route("/ui/{graph}/entrypoint.js", entrypoint, methods=["GET"]),
    ]


def _parse_name(body: bytes) -> str | None:
    try:
        match json.loads(body):
            case {"name": str(name)} if 0 < len(name) <= _LONGEST_NAME:
                return name
    except (ValueError, RecursionError):
        pass
    return None


def _escape_script(code: str) -> str:
    """Code in which nothing ends the script element: in a string that backslash says nothing."""
    return re.sub(r"<(?=/script|!--)", r"<\\", code, flags=re.IGNORECASE)


app = Starlette(routes=build_routes(build_script(os.environ)))
