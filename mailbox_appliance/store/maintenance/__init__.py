"""Check, compact, rekey and the removal of what is outdated."""
