"""The pages for people: server-rendered, complete without JavaScript; htmx makes them smooth.

They use the same service as REST, never REST itself. ``blueprint`` puts them together; the drawings are
computed in pure modules (``axis``, ``chart``, ``load``), the texts are in ``templates``.
"""
