"""The races of eight writers, a few of them."""

from __future__ import annotations

import pytest
from races import race

ROUNDS = 40


@pytest.mark.slow
@pytest.mark.parametrize("store", ["local", "s3"])
def test_of_eight_writers_one_wins_each_race(request, tmp_path, store):
    url, options = str(tmp_path), {}
    if store == "s3":
        server = request.getfixturevalue("s3")
        url, options = f"{server.bucket()}/t", server.options
    found = race(url, options, writers=8, rounds=ROUNDS)
    assert (found.one, found.none, found.several, found.true) == (ROUNDS, 0, 0, ROUNDS)
