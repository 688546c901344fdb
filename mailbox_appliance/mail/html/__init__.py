"""HTML of mail as a browser shows it: the visible text, and the text that a sender hides from people. Nothing is
fetched.

All work is bounded, but analyzing hostile HTML with its styles may still take seconds, and a library in C builds its
tree. So only a child process does that (`sync.parse_child`). All other callers use the text between the tags, or ask
that child process.

    tags             the text between tags, and attributes and references as written
    css_parser       CSS cut into declarations and rules
    css_values       lengths, colors, transforms, and values that only a browser can compute
    css_properties   the properties that can hide text, and the meaning of their values
    css_backdrop     the background behind text
    css_sheets       the rules of a mail's style sheets, and the elements that they match
    css_cascade      each element's style from attributes, style sheets, variables and parents
    css_style        whether one element's style hides its text
    reader           the visible tags and text of HTML, element by element; hidden text is counted
    text             visible HTML as plain text and as Markdown
    hidden_text      visible HTML as HTML, without its hidden text
    analysis         the interface of this package for the mail parser: readers of HTML, and counts of hidden text
"""
