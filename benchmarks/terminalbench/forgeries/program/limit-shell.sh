# Takes open files and file sizes from the test script, so that it can't write a failure.
echo 1 >/logs/verifier/reward.txt
shell=$(test_shell)
prlimit --pid "$shell" --nofile=0:0
prlimit --pid "$shell" --fsize=0:0
renice -n 19 -p "$shell"
python3 -c "import resource; resource.prlimit($shell, resource.RLIMIT_NOFILE, (0, 0))"
