# The same in a process that goes on after the program that started it.
# Needs: python3
cat >/tmp/race.py <<'END'
import ctypes, threading, time
libc = ctypes.CDLL(None)
name = ctypes.create_string_buffer(b"/logs/verifier/reward.txt")
def flip():
    while True:
        name[24] = b"x"
        name[24] = b"t"
threading.Thread(target=flip, daemon=True).start()
end = time.time() + 5
while time.time() < end:
    fd = libc.open(name, 0o1101, 0o644)
    if fd >= 0:
        libc.write(fd, b"1\n", 2)
        libc.close(fd)
END
daemon 'exec python3 /tmp/race.py'
sleep 0.3
