"""Training: from a data set and two configs to a bundle that says how good it is."""
