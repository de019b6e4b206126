"""The `penstock` command as a program that spark-submit starts: main.py run --config FILE job.py."""

from penstock.cli.main import main

main()
