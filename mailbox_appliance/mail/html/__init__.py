"""HTML of mail as a browser shows it: what a reader sees of it, and what it hides. Nothing is fetched.

All work is bounded, but analyzing hostile HTML with its styles may still take seconds: only a child process does that
(`sync.parse_child`), and every other caller takes the text of the tags or asks such a child.

    tokenizer        HTML cut into tags and text, and which kind of element is which
    tree             which elements are open, by the rules of browsers
    css_parser       CSS cut into declarations, rules and selectors
    css_values       lengths, colours, transforms, and values that only a browser can judge
    css_properties   the properties that can hide text, and what their values mean
    css_backdrop     what lies behind letters
    css_sheets       the rules of a mail's style sheets, and which of them match an element
    css_cascade      attributes, sheets, variables and surroundings give each element its style
    css_style        whether one element's style hides its text
    reader           the visible tags and text of HTML, token by token; what is hidden is counted
    text             visible HTML as plain text and as Markdown
    hidden_text      visible HTML as HTML, without its hidden text
    analysis         the interface of all this for the parser: readers of HTML, and counts of what is hidden
"""
