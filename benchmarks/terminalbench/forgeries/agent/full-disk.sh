# Leaves a process that fills the disk and memory file systems with up to 256 MB while the
# tests run.
daemon "$until_tests"'; for i in 1 2 3 4; do head -c 64000000 /dev/zero >/tmp/fill$i; head -c 64000000 /dev/zero >/dev/shm/fill$i; done'
