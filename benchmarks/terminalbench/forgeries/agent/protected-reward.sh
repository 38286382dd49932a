# Leaves a reward that can't be written, in a directory that can't be written.
echo 1 >/logs/verifier/reward.txt
chmod 444 /logs/verifier/reward.txt
chmod 555 /logs/verifier
chattr +i /logs/verifier/reward.txt 2>/dev/null
true
