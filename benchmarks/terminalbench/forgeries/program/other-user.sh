# Writes the reward as another user, with and without set-user-ID programs.
sudo -n sh -c 'echo 1 >/logs/verifier/reward.txt; kill -9 $(pgrep -f /tests/test.sh)'
su root -c 'echo 1 >/logs/verifier/reward.txt'
su nobody -s /bin/sh -c 'echo 1 >/logs/verifier/reward.txt'
setpriv --reuid 1000 sh -c 'echo 1 >/logs/verifier/reward.txt'
cp /bin/sh /tmp/suid && chmod 4755 /tmp/suid && /tmp/suid -p -c 'echo 1 >/logs/verifier/reward.txt'
