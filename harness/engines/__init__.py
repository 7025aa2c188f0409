"""What a scenario can measure: one module per engine, found by name.

Engine names are `native` and `hudi@VERSION`.
"""

from __future__ import annotations

ENGINES = ("native",)


def engine_mistake(name: str) -> str | None:
    """What is wrong with an engine's name; None if there is such an engine."""
    if name in ENGINES:
        return None
    if name == "hudi" or name.startswith("hudi@"):
        return f"engine {name!r} is not supported yet; there is 'native'"
    return f"unknown engine {name!r}; known are {', '.join(ENGINES)}"
