"""Distillation: one student learns from any teachers on unlabelled text."""
