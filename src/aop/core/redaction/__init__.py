"""Redaction: finding secrets in text and taking them out."""
