"""What is true of the compact index, which is Keymark's own.

It keeps hashes of the record keys, seven to nine bytes a key. Hudi does not know it: its writers
use the global simple index, which finds the same keys.
"""

from __future__ import annotations

from keymark.indexes.global_simple.spec import SIMPLE_MOVE
from keymark.indexes.spec import IndexOption, IndexSpec, LookupCounter, Requirements

SPEC = IndexSpec(
    name="compact",
    table_type="COMPACT",
    is_global=True,
    is_exact=False,
    order=8,
    color="#44aa99",
    key_runs="hashes",
    # The option of the index that Hudi's writers use, so that they move keys as Keymark does.
    move_option=SIMPLE_MOVE,
    options=(IndexOption(name=SIMPLE_MOVE, default="true", fixed=True),),
    requirements=Requirements(steps=("build the index from the keys of the base files",)),
    counters=(
        LookupCounter(name="shards_read", title="index runs read"),
        LookupCounter(name="candidates", title="pairs of key and file that the hashes allow"),
        LookupCounter(name="proven", title="such pairs that the file holds"),
        LookupCounter(name="false_positives", title="such pairs that the file does not hold"),
        LookupCounter(name="files_read", title="base files read"),
        LookupCounter(name="pages_read", title="pages of keys and commits read in them"),
    ),
    named_to_hudi="GLOBAL_SIMPLE",
    # No calibration has measured it: `plan` leaves it out.
    cost=None,
)
