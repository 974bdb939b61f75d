"""Integrations with other libraries, one file each."""
