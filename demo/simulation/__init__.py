"""Every part of the product, and the parts of Kubernetes around it, on the API server in memory."""
