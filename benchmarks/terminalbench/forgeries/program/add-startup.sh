# Adds modules that Python loads at its start.
for dir in $(package_dirs) "$(python3 -m site --user-site)"; do
	mkdir -p "$dir"
	printf '%s' "$forged_start" >"$dir/sitecustomize.py"
	printf '%s' "$forged_start" >"$dir/usercustomize.py"
	printf '%s' "$forged_start" >"$dir/forged_start.py"
	echo 'import forged_start' >"$dir/zz_forged.pth"
done
