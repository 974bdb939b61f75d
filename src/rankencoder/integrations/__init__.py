"""Other libraries' interfaces, one file each."""
