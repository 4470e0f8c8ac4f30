"""What front ends draw, and how they are served."""

import json

from pydantic.json_schema import models_json_schema

from ..stream.components import COMPONENTS


def props_schema() -> str:
    """The props of all components as one JSON schema; `make ui` keeps it in props.schema.json."""
    models = [(model, "validation") for model in COMPONENTS.values()]
    schemas, shared = models_json_schema(models)  # type: ignore[arg-type]  # its tuples are of literals
    by_name = {name: schemas[model, "validation"] for name, model in COMPONENTS.items()}
    schema = {"$defs": shared["$defs"], "properties": by_name}
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"
