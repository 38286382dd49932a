# Adds a conftest.py and configuration for pytest beside and above the tests.
for dir in /tests / . /app; do
	printf '%s' "$forged_plugin" >"$dir/conftest.py"
	printf '[pytest]\naddopts = -p conftest\npythonpath = .\n' >"$dir/pytest.ini"
done
