"""Door: the icon beside the clock. A process of its own and a client of the API by its member's log-in: it shows how
the appliance is, starts and stops it, and leads into the console. What it may do is decided where every door asks.
"""
