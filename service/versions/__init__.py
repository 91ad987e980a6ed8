"""Models and their versions: loaded beside each other, warmed up, watched, drained."""
