"""What is fast and how fast: ratios from one run, since machines differ and are shared."""
