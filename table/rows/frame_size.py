"""How large a Spark DataFrame is, as far as that can be known before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame

# Operators of a plan whose sizes Spark knows, and those that do not enlarge what they get.
_KNOWN = frozenset({"LogicalRelation", "LocalRelation", "Range"})
_NO_MORE = frozenset(
    {
        *("Project", "Filter", "LocalLimit", "GlobalLimit", "Sort"),
        *("Repartition", "RepartitionByExpression", "SubqueryAlias"),
    }
)
# Compressed columns may take up to this many times their bytes in memory, in usual cases.
_INFLATION = 16


def surely_below(rows: DataFrame, size: int) -> bool:
    """Whether a frame takes far fewer bytes than `size`: by Spark's estimate, where it knows.

    Spark knows the sizes of files, of local rows and of a frame that is wholly in its cache, and
    what selecting leaves of them. It guesses the sizes of joins, of exploded rows and of what
    Python makes, as the rows of `createDataFrame` of a list are: then the answer is False.
    """
    classic = getattr(rows, "_jdf", None)
    if classic is None:
        return False
    plan = classic.queryExecution().optimizedPlan()
    if int(str(plan.stats().sizeInBytes())) * _INFLATION > size:
        return False
    return all(_is_known(operator) for operator in _operators(plan))


def _is_known(operator: JavaObject) -> bool:
    name = operator.nodeName()
    if name == "InMemoryRelation":
        # Its size is a guess until all of it is cached.
        return bool(operator.cacheBuilder().isCachedColumnBuffersLoaded())
    return name in _KNOWN or name in _NO_MORE


def _operators(plan: JavaObject) -> Iterator[JavaObject]:
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from _operators(children.apply(number))


def text_bytes(rows: DataFrame) -> int:
    """The bytes that the values of a frame take as texts; the frame runs for it."""
    names = [name.replace("`", "``") for name in rows.columns]
    lengths = [f"coalesce(octet_length(cast(`{name}` as string)), 0)" for name in names]
    total = rows.selectExpr(f"sum({' + '.join(lengths)})").first()
    return int(total[0] or 0) if total is not None else 0
