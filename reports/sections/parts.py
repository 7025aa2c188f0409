"""The sections that only some runs have, and what all that is shown says in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keymark.reports.model.projection import Run
from keymark.reports.render import export
from keymark.reports.sections.compaction_part import CompactionPart, compaction_part
from keymark.reports.sections.engines_part import EnginesPart, engines_part
from keymark.reports.sections.formats_part import FormatsPart, formats_part
from keymark.reports.sections.growth_part import GrowthPart, growth_part
from keymark.reports.sections.model_part import ModelPart, model_part
from keymark.reports.sections.pair_part import PairPart, pair_part
from keymark.reports.sections.releases_part import ReleasesPart, releases_part
from keymark.reports.sections.shapes_part import ShapesPart, shapes_part
from keymark.reports.sections.variants_part import VariantsPart, variants_part
from keymark.reports.sections.virtual_part import VirtualPart, virtual_part


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Sections whose numbers `summary.json` has.

    Attributes:
        formats: which format answers which question best, of each run with several.
        engines: ours beside others, of each run with several engines.
        releases: what changed between releases of Hudi, of each run that has several.
        variants: variants of a table in one engine of Hudi, of each run that has several.
        virtuals: virtual keys beside stored ones, of each run that has both.
        shapes: shapes of data beside the first one, of each run with several.
        pairs: two indexes side by side, of each run that has two on several shapes of data.
        compactions: upserts and compaction on one bill, of each run with such steps.
        growths: what becomes of tables that grow, of each run with several sizes.
        models: the lookup model, of each run that measured it.
    """

    formats: list[FormatsPart]
    engines: list[EnginesPart]
    releases: list[ReleasesPart]
    variants: list[VariantsPart]
    virtuals: list[VirtualPart]
    shapes: list[ShapesPart]
    pairs: list[PairPart]
    compactions: list[CompactionPart]
    growths: list[GrowthPart]
    models: list[ModelPart]

    @classmethod
    def of(cls, runs: Sequence[Run], larger: Run | None = None) -> Parts:
        """The sections of some runs.

        Args:
            runs: that are reported on.
            larger: a run whose table is the largest size of those with several sizes.
        """
        return cls(
            formats=[found for run in runs if (found := formats_part(run)) is not None],
            engines=[each for run in runs if (each := engines_part(run)) is not None],
            releases=[changed for run in runs if (changed := releases_part(run)) is not None],
            variants=[varied for run in runs if (varied := variants_part(run)) is not None],
            virtuals=[made for run in runs if (made := virtual_part(run)) is not None],
            shapes=[beside for run in runs if (beside := shapes_part(run)) is not None],
            pairs=[pair for run in runs if (pair := pair_part(run)) is not None],
            compactions=[bill for run in runs if (bill := compaction_part(run)) is not None],
            growths=[grown for run in runs if (grown := growth_part(run, larger)) is not None],
            models=[part for run in runs if (part := model_part(run)) is not None],
        )


def summary(runs: Sequence[Run], parts: Parts) -> dict[str, Any]:
    """The content of summary.json: every number of a page."""
    return export.summary(
        runs,
        growths=parts.growths,
        others={
            "lookup_models": parts.models,
            "formats": parts.formats,
            "engines": parts.engines,
            "releases": parts.releases,
            "variants": parts.variants,
            "virtual_keys": parts.virtuals,
            "shapes": parts.shapes,
            "pairs": parts.pairs,
            "compactions": parts.compactions,
        },
    )
