"""What makes the documentation: hooks of its build, and the scripts behind its pictures."""
