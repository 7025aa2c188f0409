"""Words of Avro and of Hudi that are names of indexes, too; no other module spells them.

Elsewhere a text that is the name of an index would be a comparison with it: ask its spec instead.
"""

from __future__ import annotations

AVRO_RECORD = "record"
"""A type of Avro schemas."""

SIMPLE_FIELD = "simple"
"""A kind of partition fields (hoodie.datasource.write.partitionpath.field)."""
