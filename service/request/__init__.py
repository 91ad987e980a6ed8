"""What a request says and what is answered: reading, tokenizing, scores, attention, the cache."""
