"""People sign in on the page, by the site's OIDC provider or with a Kubernetes token, and stay by a cookie.

``session_auth`` says who is behind a request, ``views`` lets people in and out. What a cookie says stands
nowhere; the database knows its digest.
"""
