"""HTML of mail as a browser shows it: what readers see, and what it hides. Nothing is fetched.

All work is bounded, but analyzing hostile HTML with its styles may still take seconds. So only a child process does
that (`sync.parse_child`), and every other caller takes the text of the tags or asks such a child.

    tokenizer        HTML cut into tags and text, and the kinds of elements
    tree             which elements are open, by the rules of browsers
    css_parser       CSS cut into declarations, rules and selectors
    css_values       lengths, colors, transforms, and values that only a browser can judge
    css_properties   the properties that can hide text, and the meaning of their values
    css_backdrop     the background behind letters
    css_sheets       the rules of a mail's style sheets, and which of them match an element
    css_cascade      each element's style from attributes, sheets, variables and surroundings
    css_style        whether one element's style hides its text
    reader           the visible tags and text of HTML, token by token; hidden text is counted
    text             visible HTML as plain text and as Markdown
    hidden_text      visible HTML as HTML, without its hidden text
    analysis         the interface of all this for the parser: readers of HTML, and counts of hidden text
"""
