"""What mail is: bytes and text to values and back (RFC 5322, RFC 2045 to 2049). No network, no store, no clock.

Received mail is read leniently, whatever a sender wrote; writing is strict, so that every server takes the result.
How browsers show HTML, and what it hides, is in `html`. How messages travel is in `remote`; where they lie, in `store`.

    address                which addresses are accepted, how they travel, when two are the same mailbox
    encoded_words          character sets, encoded words (RFC 2047) and comments, to text and back
    headers                header fields read: fields, text, parameters, addresses, dates, file names
    mime                   the parts of a message as offsets into its bytes, and their transfer encodings
    parse                  a message to what a person reads: header, text, HTML, attachments
    outline                the same without holding large files: their base64 is left out first
    large                  a large message read, or divided, without its large attachments
    preview                what a message would look like on its way
    compose                values to the bytes of a message, always 7-bit, and the row that it will have in lists
    seven_bit              any message made fit for every server: 7 bits, CRLF
    draft                  a saved draft made ready to send
    legacy                 a message that release 0.10 stored for later, made ready to send
    reply                  who a reply goes to, and what ties it to its parent
    forward                subject, quoted text and HTML, and attachments of a forward
    threads                Message-IDs and base subjects: what holds a conversation together
    search                 the query language of `q`, the words of the full-text index, excerpts
    folder_roles           which folder is Inbox, Sent, Trash, ..., and the labels of Gmail
    alternatives           whether the plain text of a message says what its HTML says
    invisible_characters   characters that nobody sees
"""
