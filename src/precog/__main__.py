"""`python -m precog` is the command line."""

from precog.cli import main

main()
