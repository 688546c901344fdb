"""The commands, one file for each noun, imported when one of them is used. How they reach a server and how answers are
shown lives one level up.
"""
