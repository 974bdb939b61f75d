"""What computes vectors: torch, or a runtime made for CPUs that runs the same model converted to a graph."""
