"""The props of all components as one JSON schema: what a page checks them by.

`python -m loopwright.ui.schema` prints it; `make ui` keeps it in props.schema.json.
"""

import json
import sys

from pydantic.json_schema import models_json_schema

from ..stream.components import COMPONENTS


def props_schema() -> str:
    """By component name, with the parts they share under `$defs`."""
    models = [(model, "validation") for model in COMPONENTS.values()]
    found, shared = models_json_schema(models)  # type: ignore[arg-type]  # its tuples are of literals
    by_name = {name: found[model, "validation"] for name, model in COMPONENTS.items()}
    schema = {"$defs": shared["$defs"], "properties": by_name}
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(props_schema())
