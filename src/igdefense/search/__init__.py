"""A search in the family of IG-Defense for a setting whose gain lasts."""
