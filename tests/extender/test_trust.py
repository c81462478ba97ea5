from extender.trust import first_obstacle


def test_the_first_trouble_is_told() -> None:
    assert first_obstacle(lambda: None, lambda: "one", lambda: "two")() == "one"
    assert first_obstacle(lambda: None)() is None
