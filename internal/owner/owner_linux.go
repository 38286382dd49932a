package owner

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// stat returns a process's state letter and start time in clock ticks since boot.
func stat(pid int) (state byte, start uint64, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	// The name, in parentheses, may contain anything.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const startField = 19 // the 22nd of all, counted from the state
	if len(fields) <= startField {
		return 0, 0, false
	}
	start, err = strconv.ParseUint(string(fields[startField]), 10, 64)
	return fields[0][0], start, err == nil
}

func startTime(pid int) (uint64, bool) {
	_, start, ok := stat(pid)
	return start, ok
}

func exists(pid int) bool {
	state, _, ok := stat(pid)
	return ok && state != 'Z' && state != 'X'
}

func pidSpace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}

func machineID() string {
	data, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	id := strings.ReplaceAll(strings.TrimSpace(string(data)), "-", "")
	if err != nil || len(id) < 12 {
		return "x"
	}
	return id[:12]
}
