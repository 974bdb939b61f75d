"""Language models and their tokenizers."""
