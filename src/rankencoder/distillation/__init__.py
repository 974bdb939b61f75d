"""Distillation: any encoders in, one better or faster encoder out, on unlabelled text."""
