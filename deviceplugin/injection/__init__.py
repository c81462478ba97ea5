"""How devices get into containers: CDI specifications, device nodes, the driver's files."""
