"""Attacks made for IG-Defense: one idea a file, each with the reason why it is there.

They know the structure of the defense, which `igdefense.attacks` does not. A file has a surrogate
or an attack or both, and a function `columns` that says what is run; `suite` lists the files.
"""
