"""Stage 2: teachers, targets and losses."""
