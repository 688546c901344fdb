"""The nouns that every floor speaks of: frozen records, the bytes of large messages, and decoding. Imports nothing
above.
"""
