"""Batches that are too large for the writer's process: their rows stay on storage, and in tasks.

    incoming rows  -> prepared in tasks, dealt out by key   -> a spool file a task, a stretch a part
    parts          -> cut into ranges of keys where memory does not hold them
    each           -> one row a key, found in the index     -> a spool file a part, a stretch for
                                                               each way that rows go
    driver         counts a way: gives each way its file groups
    file groups    -> a task reads its stretches, merges, puts the next slice
                                                            -> key files of what came and went

Order across Spark partitions is that of the collected batch: the rows of a partition before those
of the next one. Equal keys meet in one part, in that order, so the same row wins. The driver holds
no rows: counts, places of stretches, and where an index tags neither in tasks nor by a frame, some
keys at a time.
"""
