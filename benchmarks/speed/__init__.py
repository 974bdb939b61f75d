"""What ``make bench`` measures: one file a subject, each with its peers."""
