"""Why filter keeps a pod off a node: the table of ``cluster.decide.reasons``."""

from cluster.decide import reasons
from docs.tables.markdown import code, table


def rejections_table() -> str:
    """Every reason, in the order in which they are checked."""
    rows = (
        (code(cause.code), cause.pattern.replace("{}", "…").strip(), cause.change.replace("|", r"\|"))
        for cause in reasons.ALL
    )
    return table(("code", "message to the scheduler", "what would change it"), rows)
