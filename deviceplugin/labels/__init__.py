"""Labels of the Node that say which GPUs it has: GPU feature discovery's, and our own, one for each model."""
