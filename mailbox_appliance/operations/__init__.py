"""Everything one may ask for, written once, with what it needs. No HTTP, no flags, no tools: those are the doors'."""
