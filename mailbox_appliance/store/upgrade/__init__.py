"""From a store of an older release to one of today, beside it, with a backup first."""
