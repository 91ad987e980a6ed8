"""What one model version has done since it was loaded, whatever protocol asked."""

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Duration:
    """How often something happened and how long all of it took."""

    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds


@dataclass(slots=True)
class Statistics:
    """Counts and times of requests; the metrics have the same for the server as a whole.

    Attributes:
        success: requests computed, from their arrival to their results.
        fail: requests refused, failed or given up.
        queue, tokenize, compute: parts of success; compute is a request's longest run.
        output_seconds: results to tensors; other answers are built within the rest of a call.
        num_texts: texts computed, or found in the answer cache.
        last_answered: in seconds since 1970; 0 if nothing was.
    """

    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    queue: Duration = field(default_factory=Duration)
    tokenize: Duration = field(default_factory=Duration)
    compute: Duration = field(default_factory=Duration)
    output_seconds: float = 0.0
    num_texts: int = 0
    last_answered: float = 0.0

    def answered(
        self,
        seconds: float,
        *,
        num_texts: int,
        queue_seconds: float,
        tokenize_seconds: float,
        compute_seconds: float,
    ) -> None:
        """Counts a request that was computed, and where its seconds went."""
        self.success.add(seconds)
        self.queue.add(queue_seconds)
        self.tokenize.add(tokenize_seconds)
        self.compute.add(compute_seconds)
        self.num_texts += num_texts
        self.last_answered = time.time()
