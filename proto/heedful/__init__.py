"""The heedful client and contract."""
