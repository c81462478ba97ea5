"""The page for people: server-rendered, complete without JavaScript; htmx makes it smooth.

It asks the same service as REST, never REST itself. ``blueprint`` puts it together; the drawings are computed
in pure modules (``axis``, ``chart``, ``load``), the texts are in ``templates``.
"""
