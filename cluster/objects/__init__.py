"""The Kubernetes objects that we read, as partial structs with only the fields that we use.

Unknown fields are skipped and nulls are tolerated (a bookmark has ``containers: null``). The functions next
to the structs, which read them, are pure.
"""
