"""Pictures of attention: in the terminal, as PNG, as a self-contained HTML page, in notebooks."""
