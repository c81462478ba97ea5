"""The page for people: server-rendered, complete without JavaScript; htmx makes it smooth.

It asks the same service as REST, never REST itself. ``blueprint`` puts it together; what is drawn is computed
in pure modules (``axis``, ``chart``, ``load``), what is said stands in ``templates``.
"""
