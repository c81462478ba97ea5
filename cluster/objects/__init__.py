"""The Kubernetes objects that we read, as partial structs: the fields that we use and no others.

Unknown fields are skipped and nulls are tolerated (a bookmark carries ``containers: null``). The readers
next to the structs are pure.
"""
