"""Takes mail out: one worker hands each accepted operation over at most once, `verdict` judges what replies mean."""
