"""The order of rows in a table's files, as an axis of a comparison.

Rows lie in files as they came unless a cell's option `keymark.row.order` asks for another order:

    key       sorted by the record key
    zorder    along a Z-order curve of the columns of the record key

Rows are put in order after the load, on its clock, and by each compaction. Until then the rows of a
batch are in the order in which they came. An engine that cannot keep the order leaves the cell out,
with one line that says what it can do.
"""

from __future__ import annotations

from collections.abc import Mapping

from keymark.harness.engines import format_name, hudi_name, is_native, library_name
from keymark.harness.engines.base import Layout
from keymark.harness.engines.formats import BY_KEY, ROW_ORDER
from keymark.harness.errors import CellError

_NATIVE = (
    "native keeps rows as bulk_insert gets them: sort them before, as in "
    "table.bulk_insert(rows.sort(...))"
)
_HUDI = (
    f"Hudi z-orders in clustering only, which a run does not call: {ROW_ORDER} = {BY_KEY} sorts "
    "its bulk insert"
)


def order_mistake(engine: str, options: Mapping[str, str]) -> str | None:
    """Why an engine cannot keep the order that options ask for; None if it can, or none is asked.

    Args:
        engine: its name.
        options: of a cell.
    """
    order = options.get(ROW_ORDER)
    if order is None:
        return None
    if is_native(engine):
        return _NATIVE
    if hudi_name(engine) is not None:
        return None if order == BY_KEY else _HUDI
    named, library = format_name(engine), library_name(engine)
    if named is not None:
        return None if order in named.release.orders else named.release.unordered
    if library is not None:
        return None if order in library.orders else library.unordered
    return None


def ordered_columns(layout: Layout) -> tuple[str, ...]:
    """The columns by which rows of a partition can be ordered: the key's that are no partition's.

    Raises:
        CellError: the key has no other columns.
    """
    found = tuple(name for name in layout.record_key if name not in layout.partition_path)
    if not found:
        raise CellError(f"{ROW_ORDER}: the record key has no column beside those of the partition")
    return found
