"""The Kubernetes cluster as this product sees it: words, objects, decisions and access to its API.

Every part (node agent, extender, booking service) builds on this package; it imports none of them.
"""
