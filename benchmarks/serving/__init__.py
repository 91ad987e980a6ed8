"""The server against its own engine in process, against two rivals, and under overload."""
