# Leaves a .pth file, whose code Python runs at its start.
# Needs: python3
for dir in $(package_dirs); do
	mkdir -p "$dir"
	printf '%s' "$forged_start" >"$dir/forged_start.py"
	echo 'import forged_start' >"$dir/zz_forged.pth"
done
