"""One function, several engines."""
