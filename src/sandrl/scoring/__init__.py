"""From completions to rewards: batches, the cache of verdicts, policies, a batch without an end, the fleet."""
