"""An HBase on this machine, and cells that need one."""
