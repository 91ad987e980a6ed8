"""The `heedful` command."""
