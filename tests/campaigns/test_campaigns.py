"""A share of each fault campaign; `make test-faults` runs all of each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import run_campaigns as campaigns


def _chosen(name: str) -> list[str]:
    """Cases that lie evenly over all of a campaign's."""
    campaign = campaigns.load(name)
    cases = campaign.cases()
    step = max(1, len(cases) // campaign.share)
    return list(cases[::step][: campaign.share])


SHARE = [(name, case) for name in campaigns.names() for case in _chosen(name)]


@pytest.mark.parametrize(("name", "case"), SHARE, ids=lambda text: text)
def test_case(name, case, tmp_path):
    outcome = campaigns.load(name).run(case, tmp_path)
    assert outcome.failures == []
    assert sum(outcome.counts.values()), "the case did nothing"
