# Prints what looks like a failed installation of the tests' tools, also to the output of
# the test script itself.
message='curl: (6) Could not resolve host: astral.sh'
echo "$message"
echo "$message" >&2
shell=$(test_shell)
for fd in 1 2; do timeout 1 sh -c "echo '$message' >/proc/$shell/fd/$fd"; done
