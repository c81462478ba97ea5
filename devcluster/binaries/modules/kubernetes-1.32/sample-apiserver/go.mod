// Nothing of it is compiled, and that of this release cannot be fetched.
module k8s.io/sample-apiserver

go 1.23.0
