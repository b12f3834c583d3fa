"""The family of IG-Defense, and a search in it for a setting whose gain lasts."""
