"""Choose a similarity on scored pairs."""
