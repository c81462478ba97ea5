"""Why filter keeps a pod off a node: the table of ``cluster.decide.reasons``."""

from cluster.decide import reasons
from docs.tables.markdown import code, table


def rejections_table() -> str:
    """Every reason, in the order in which they are looked for."""
    rows = (
        (code(cause.code), cause.pattern.replace("{}", "…").strip(), cause.change.replace("|", r"\|"))
        for cause in reasons.ALL
    )
    return table(("code", "what the scheduler is told", "what would change it"), rows)
