"""Signing in on the page, by the site's OIDC provider or with a Kubernetes token, and sessions by cookie.

``session_auth`` identifies the user behind a request, ``views`` signs people in and out. The value of a
cookie is stored nowhere; the database has its digest.
"""
