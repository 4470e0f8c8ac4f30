"""An OpenTelemetry meter whose numbers tests can read: the real SDK, its reader in memory."""

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader


class Meter:
    """What was told, by name and attributes."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])

    def heard(self, name: str) -> dict[tuple[str, ...], Any]:
        """The sum of each set of attributes; of a histogram how often and how much."""
        found: dict[tuple[str, ...], Any] = {}
        data = self.reader.get_metrics_data()
        for scope in data.resource_metrics[0].scope_metrics if data else ():
            assert scope.scope.name == "loopwright"
            for metric in scope.metrics:
                for point in metric.data.data_points if metric.name == name else ():
                    values = tuple(
                        str(word) for _, word in sorted((point.attributes or {}).items())
                    )
                    one = point.value if hasattr(point, "value") else (point.count, point.sum)
                    found[values] = one
        return found
