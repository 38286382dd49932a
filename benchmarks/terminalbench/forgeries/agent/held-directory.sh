# Leaves a process whose working directory is that of the rewards, and writes there.
daemon 'cd /logs/verifier; '"$until_tests"'; while :; do echo 1 >reward.txt; sleep 0.002; done'
