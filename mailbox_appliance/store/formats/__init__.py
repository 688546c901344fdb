"""The formats of the store, each with its own SQL.

None of these modules imports present tables, so a change of those does not affect how old formats are read.

format_4              reads formats 3 and 4, and converts them to format 5
format_4_deliveries   the deliveries of format 4
format_5              the schema of today's format
"""
