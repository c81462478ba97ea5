"""Why filter keeps a pod off a node: the table of ``cluster.decide.reasons``."""

from cluster.decide import reasons
from docs.tables.markdown import code, table


def rejections_table() -> str:
    """Every reason, in the order in which they are checked."""
    rows = (
        (
            code(cause.code),
            cause.counted.replace("{}", "…").strip(),
            cause.pattern.replace("{}", "…").strip(),
            cause.change.replace("|", r"\|"),
        )
        for cause in reasons.ALL
    )
    return table(
        (
            "code",
            "as kube-scheduler writes it, after a number",
            "as `why` says it of a node",
            "what would change it",
        ),
        rows,
    )
