#!/usr/bin/env bash
# pytest comes along as wheels, which are zip files: nothing has to be installed, and no network is needed.
set -euo pipefail
# Without its wheels pytest is missing, and Paddock says so.
shopt -s nullglob
cd "$HOME/tests"
for wheel in wheels/*.whl; do python3 -m zipfile -e "$wheel" site; done
# Neither the workdir's settings nor its conftest.py are read: tests are collected here, with these settings.
PYTHONPATH=site PYTHONDONTWRITEBYTECODE=1 python3 -m pytest -q -c /dev/null --rootdir . -p no:cacheprovider test_*.py
