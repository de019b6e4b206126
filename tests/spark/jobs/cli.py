"""The command line, as a program."""

from penstock.cli.main import main

main()
