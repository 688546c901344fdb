"""What mail is: bytes and text to values and back (RFC 5322, RFC 2045 to 2049). No network, no store, no clock."""
