# Leaves a conftest.py and configuration for pytest in the working directory.
printf '%s' "$forged_plugin" >conftest.py
printf '[pytest]\naddopts = -p conftest\npythonpath = .\n' >pytest.ini
printf '[tool.pytest.ini_options]\naddopts = "-p conftest"\npythonpath = ["."]\n' >pyproject.toml
