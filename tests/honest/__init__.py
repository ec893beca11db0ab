"""Honest solutions in every style: plain Python decides what is right, and the judge must decide the same."""
