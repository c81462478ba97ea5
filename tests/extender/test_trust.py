from extender.trust import first_unready_reason


def test_the_first_trouble_is_told() -> None:
    assert first_unready_reason(lambda: None, lambda: "one", lambda: "two")() == "one"
    assert first_unready_reason(lambda: None)() is None
