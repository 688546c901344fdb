"""Read, compose and convert mail (RFC 5322, RFC 2045 to 2049). No network, no store, no clock.

Received mail is read leniently, however broken it is. Writing is strict, so that every server accepts the result. The
package `html` finds out which text of an HTML mail is visible. `remote` sends and fetches messages; `store` keeps them.

    address                which addresses are accepted, their form in SMTP, when two name the same mailbox
    encoded_words          character sets, encoded words (RFC 2047) and comments, to text and back
    headers                reading header fields: fields, text, parameters, addresses, dates, file names
    mime                   the parts of a message as positions in its bytes, and their transfer encodings
    parse                  a message to what a person reads: header, text, HTML, attachments
    outline                the same for large messages: long runs of base64 are left out to save memory
    large                  reading a message without fetching large attachments, or taking them out of a message
    preview                what a composed message will look like to its recipients
    compose                recipients, texts and files to the bytes of a message, always 7-bit
    seven_bit              any message converted for every server: 7-bit, CRLF
    draft                  a saved draft converted to a message that can be sent
    legacy                 a scheduled message of release 0.10 converted to one that can be sent
    reply                  the recipients of a reply, and its references to the message it replies to
    forward                subject, quoted text and HTML, and attachments of a forward
    threads                Message-IDs and base subjects, which form conversations
    search                 the query language of `q`, the words of the full-text index, excerpts
    folder_roles           which folder is Inbox, Sent, Trash, ..., and the labels of Gmail
    alternatives           whether the plain text of a message differs from its HTML
    invisible_characters   removal of characters that nobody sees
"""
