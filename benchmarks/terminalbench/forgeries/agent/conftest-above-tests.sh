# Leaves a conftest.py and configuration for pytest above the tests.
printf '%s' "$forged_plugin" >/conftest.py
printf '[pytest]\naddopts = -p conftest\npythonpath = /\n' >/pytest.ini
