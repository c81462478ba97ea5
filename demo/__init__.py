"""The whole product without a cluster, to be seen in a browser. ``simulation`` runs it, ``lab`` fills it."""
