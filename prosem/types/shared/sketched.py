"""What the optimizer asks of a space of points: descriptors of regions, and how many points they hold."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from cn.match.point_index import PointIndex
from cn.model.geometry import Region
from optimizer.plan import Descriptor
from optimizer.sketch import SAMPLE, Sketch
from prosem.types.base import SteppedSpace

_LOOKS = 64  # descriptors between two looks at the number of points
_RENEWED = 1000  # looks after which the picture of the points is made anew, whatever their number


class Sketched(SteppedSpace):
    """`points` with a coarse picture of them, made anew when a quarter of them came or went."""

    sample: ClassVar[int] = SAMPLE  # points that the picture is made of

    def __init__(self, points: PointIndex) -> None:
        self.points = points
        self._sketch = Sketch((), points.dimensions)
        self._descriptors_left = self._looks = 0

    @abstractmethod
    def regions(self, description: Any) -> Sequence[tuple[bytes, Region]]:
        """The regions of a description with their topics."""

    def descriptor(self, description: Any) -> Descriptor:
        """See `Sketch.descriptor`; the number of points is that under the first topic."""
        sketch, regions = self.sketch(), self.regions(description)
        return sketch.descriptor(regions, self.points.population(regions[0][0]) if regions else 0)

    def sketch(self) -> Sketch:
        """The picture as of now."""
        self._descriptors_left -= 1
        if self._descriptors_left < 0:
            self._look()
        return self._sketch

    def expected(self, description: Any) -> float:
        """About how many are affected, by the histogram."""
        sketch, population = self._sketch, self.points.population
        return sum(
            population(topic) * sketch.share(sketch.hull((box,)))
            for topic, region in self.regions(description)
            for box in region
        )

    def affected(self, description: Any) -> int:
        """How many are affected, by looking them up."""
        return sum(self.points.count(topic, region) for topic, region in self.regions(description))

    def _look(self) -> None:
        points, size = self.points, len(self.points)
        self._descriptors_left, self._looks = _LOOKS, self._looks + 1
        if not 0.8 * size <= self._sketch.size <= 1.25 * size or self._looks > _RENEWED:
            self._sketch = Sketch(points.thinned(self.sample), points.dimensions, size)
            self._looks = 0
