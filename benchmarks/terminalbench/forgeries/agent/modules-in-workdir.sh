# Leaves modules in the working directory under the names of those that pytest loads.
for name in pytest pluggy iniconfig packaging _pytest; do printf '%s' "$forged_start" >"$name.py"; done
