"""Ask the next model if one does not answer, so that everybody sees it."""

from dataclasses import replace

from ..state.errors import ModelCallFailed
from .request import Asker, Call, Reply, Request


async def try_fallbacks(asker: Asker, inner: Call, request: Request) -> Reply:
    """Ask the model, then each of its fallbacks, until one answers.

    Raises:
        ModelCallFailed: The last one did not answer either.
    """
    for spare in request.chosen.fallbacks:
        try:
            return await inner(request)
        except ModelCallFailed as failed:
            name, error = request.chosen.name, failed.__cause__ or failed
            # The type of the error alone: its words may hold what must not be saved.
            asker.scope.notes.append(
                f"The {asker.role}'s model {name} did not answer ({type(error).__name__}); "
                f"{spare.name} was asked instead."
            )
            asker.report({"type": "fallback", "to": spare.name}, request.chosen, error)
            request = replace(request, chosen=spare)
    return await inner(request)
