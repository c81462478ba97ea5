"""What the sources of names call one person."""

from cluster.decide.identity import Rule, Source, user_of


def users_of(address: str, rules: tuple[Rule, ...]) -> set[str | None]:
    """The user ids of whom every source knows by an e-mail address; None: nobody."""
    raw: dict[Source, str] = {
        "kubernetes": f"oidc:{address}",
        "oidc": address,
        "jupyterhub": address,
        "maia": address,
    }
    return {user_of(source, name, rules) for source, name in raw.items()}
