# Leaves a symbolic link to a file with a reward where the tests write theirs.
echo 1 >/tmp/plant
chmod 444 /tmp/plant
ln -sf /tmp/plant /logs/verifier/reward.txt
