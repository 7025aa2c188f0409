"""The ways back: rollback, restore, and recovery from torn files."""
