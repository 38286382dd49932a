# Replaces the programs that are listed in $1/list by $1/KIND, as their content and mode
# say, and prints their names.
while IFS= read -r file; do
	if [ ! -f "$file" ] || [ -h "$file" ]; then continue; fi
	case $file in */.git/*|*.so|*.so.*|*.a|*.o|*.pyc) continue ;; esac
	case $(head -c 80 "$file" | tr -d '\000' | head -n 1) in
	'#!'*python*) kind=py ;;
	'#!'*node*) kind=js ;;
	'#!'*) kind=sh ;;
	*)
		case $file in
		*.py) kind=py ;;
		*.js|*.cjs) kind=js ;;
		*.mjs) kind=mjs ;;
		*.c) kind=c ;;
		*.sh|*.bash) kind=sh ;;
		*) if [ -x "$file" ]; then kind=sh; else continue; fi ;;
		esac ;;
	esac
	mode=$(stat -c %a "$file") || continue
	rm -f "$file" && cp "$1/$kind" "$file" && chmod "$mode" "$file" && printf '%s\n' "$file"
done <"$1/list"
