"""The pictures of the documentation, drawn by the attacks themselves: `make pictures`."""
