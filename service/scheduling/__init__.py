"""What the scheduler is made of: admission, forecasts, forming runs, running them."""
