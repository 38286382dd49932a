# Leaves a directory in place of the reward, so that the tests can't write theirs.
mkdir -p /logs/verifier/reward.txt/x
echo '{"reward": 1}' >/logs/verifier/reward.json
