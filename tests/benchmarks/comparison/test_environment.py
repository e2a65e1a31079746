"""Where rivals are, and whether they are there."""

import sys

from comparison.environment import RECIPES, Environment, environment


def test_each_rival_has_a_place_of_its_own_in_the_cache(tmp_path):
    """Their packages would not go together."""
    places = {environment(recipe, tmp_path).directory for recipe in RECIPES}
    assert places == {tmp_path / "rivals" / name for name in ("llama-cpp", "transformers", "vllm")}


def test_an_environment_that_is_not_there_has_no_version(tmp_path):
    """The rival is left out then."""
    assert Environment(tmp_path / "nowhere", "aiohttp").version() is None


def test_the_version_is_that_of_the_package_in_it(tmp_path):
    """An environment without the package has none either."""
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    assert Environment(tmp_path, "aiohttp").version().count(".") == 2
    assert Environment(tmp_path, "no-such-package").version() is None
