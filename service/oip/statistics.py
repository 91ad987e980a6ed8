"""A model's counts and times in the protocol's words."""

from heedful.oip import open_inference_pb2 as oip
from service.statistics import Duration
from service.versions.models import ServedModel


def model_statistics(served: ServedModel) -> oip.ModelStatistics:
    statistics = served.servicer.statistics
    return oip.ModelStatistics(
        name=served.name,
        version=served.version,
        last_inference=int(statistics.last_answered * 1e3),
        inference_count=statistics.num_texts,
        execution_count=served.scheduler.num_runs,
        inference_stats=oip.InferStatistics(
            success=_duration(statistics.success),
            fail=_duration(statistics.fail),
            queue=_duration(statistics.queue),
            compute_input=_duration(statistics.tokenize),
            compute_infer=_duration(statistics.compute),
            # perf_analyzer ends with an error unless the three are counted alike.
            compute_output=_duration(Duration(statistics.compute.count, statistics.output_seconds)),
        ),
    )


def _duration(duration: Duration) -> oip.StatisticDuration:
    return oip.StatisticDuration(count=duration.count, ns=int(duration.seconds * 1e9))
