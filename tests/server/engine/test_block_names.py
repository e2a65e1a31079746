from headrace_server.engine.block_names import BlockNames


def names_of(token_ids, cache_identity=""):
    return list(BlockNames(cache_identity, 4).of_first(len(token_ids) // 4, token_ids))


def test_equal_beginnings_have_equal_names():
    """Names agree as far as the tokens do, and no further."""
    first = names_of([1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9])
    second = names_of([1, 2, 3, 4, 5, 6, 7, 8, 0, 9, 9, 9])

    assert first[:2] == second[:2]
    assert first[2] != second[2]


def test_the_same_tokens_after_others_have_another_name():
    """What a block holds depends on all that is before it."""
    assert names_of([1] * 8)[0] != names_of([1] * 8)[1]
    assert names_of([1] * 4 + [2] * 4)[1] != names_of([3] * 4 + [2] * 4)[1]


def test_another_identity_has_other_names():
    """Callers of different identities never find each other's blocks."""
    assert set(names_of([1] * 8, "a")).isdisjoint(names_of([1] * 8, "b"))


def test_names_do_not_depend_on_when_they_are_asked_for():
    """A sequence that grows keeps its names."""
    names = BlockNames("", 4)
    token_ids = list(range(8))
    early = list(names.of_first(2, token_ids))
    token_ids += range(8, 3000)

    assert list(names.of_first(750, token_ids)) == names_of(token_ids)
    assert names_of(token_ids)[:2] == early
    assert {len(name) for name in early} == {16}
