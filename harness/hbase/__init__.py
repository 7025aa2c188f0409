"""An HBase on this machine: its server and the command."""
