package sandbox

import (
	"fmt"
	"slices"
	"strings"
)

// Capabilities says which of Linux's capabilities root has in a container. The zero
// value means the ones of RestrictedCapabilities.
type Capabilities struct {
	// Base is what Add and Drop change. "" means CapabilitiesRestricted.
	Base CapabilityBase
	Add  []string // names without CAP_; ALL adds every one
	Drop []string
}

// CapabilityBase names a set of capabilities.
type CapabilityBase string

// The bases of Capabilities.
const (
	CapabilitiesRestricted CapabilityBase = "restricted" // RestrictedCapabilities
	CapabilitiesEngine     CapabilityBase = "engine"     // what the container engine gives by default
	CapabilitiesNone       CapabilityBase = "none"
)

// RestrictedCapabilities are what package managers and services that change to another
// user need. Left out of Docker's default are AUDIT_WRITE, MKNOD, NET_RAW, SETFCAP,
// SETPCAP and SYS_CHROOT.
func RestrictedCapabilities() []string {
	return []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID"}
}

// DockerCapabilities are Docker's default.
func DockerCapabilities() []string {
	return []string{
		"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
		"SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
	}
}

// allCapabilities are the kernel's, in the order of their numbers.
var allCapabilities = [...]string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE",
	"NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT",
	"SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE",
	"AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
	"PERFMON", "BPF", "CHECKPOINT_RESTORE",
}

const everyCapability = "ALL"

// CapabilityNumber returns the kernel's number of a capability, without CAP_.
func CapabilityNumber(name string) (number int, ok bool) {
	number = slices.Index(allCapabilities[:], name)
	return number, number >= 0
}

// ParseCapabilities reads the words of a configuration: a base (engine, restricted,
// none) first if wanted, then names to add (NET_RAW, +NET_RAW) and to drop (-MKNOD).
// Without a base the set consists of the names alone. No words are the zero value.
func ParseCapabilities(words []string) (Capabilities, error) {
	var c Capabilities
	for i, word := range words {
		word = strings.TrimSpace(word)
		switch base := CapabilityBase(strings.ToLower(word)); base {
		case CapabilitiesRestricted, CapabilitiesEngine, CapabilitiesNone:
			if i > 0 {
				return Capabilities{}, fmt.Errorf("%q has to come first: the words after it add capabilities or drop some", word)
			}
			c.Base = base
			continue
		}
		if i == 0 {
			c.Base = CapabilitiesNone
		}
		list, name := &c.Add, strings.ToUpper(strings.TrimPrefix(word, "+"))
		if rest, drop := strings.CutPrefix(word, "-"); drop {
			list, name = &c.Drop, strings.ToUpper(rest)
		}
		name = strings.TrimPrefix(name, "CAP_")
		if list == &c.Drop && name == everyCapability {
			return Capabilities{}, fmt.Errorf("%q drops every capability: write none instead", word)
		}
		if list == &c.Add && name == "SYS_PTRACE" {
			return Capabilities{}, fmt.Errorf("%q can't be had: with it, processes could change the harness's own server in the container; debuggers work without it on processes of their own user", word)
		}
		if _, ok := CapabilityNumber(name); !ok && name != everyCapability {
			return Capabilities{}, fmt.Errorf("%q is neither a set (engine, restricted, none) nor a capability of Linux such as NET_RAW", word)
		}
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	return c, nil
}

// IsEngine reports whether the set is exactly the engine's default.
func (c Capabilities) IsEngine() bool {
	return c.Base == CapabilitiesEngine && len(c.Add)+len(c.Drop) == 0
}

// Has reports whether the set has a capability, as far as that is known without asking
// the engine: its default is taken for Docker's.
func (c Capabilities) Has(name string) bool {
	if slices.Contains(c.Drop, name) {
		return false
	}
	if slices.Contains(c.Add, name) || slices.Contains(c.Add, everyCapability) {
		return true
	}
	return slices.Contains(c.base(), name)
}

func (c Capabilities) base() []string {
	switch c.Base {
	case CapabilitiesEngine:
		return DockerCapabilities()
	case CapabilitiesNone:
		return nil
	}
	return RestrictedCapabilities()
}

// Lists returns the set as container engines take it: what is added to and dropped from
// their default.
func (c Capabilities) Lists() (add, drop []string) {
	if c.Base == CapabilitiesEngine {
		return slices.Clone(c.Add), slices.Clone(c.Drop)
	}
	add = c.base()
	for _, name := range c.Add {
		if !slices.Contains(add, name) {
			add = append(add, name)
		}
	}
	if slices.Contains(add, everyCapability) {
		return add, slices.Clone(c.Drop)
	}
	return slices.DeleteFunc(add, func(name string) bool { return slices.Contains(c.Drop, name) }), []string{everyCapability}
}

// String writes the set as ParseCapabilities reads it.
func (c Capabilities) String() string {
	base := c.Base
	if base == "" {
		base = CapabilitiesRestricted
	}
	words := []string{string(base)}
	for _, name := range c.Add {
		words = append(words, "+"+name)
	}
	for _, name := range c.Drop {
		words = append(words, "-"+name)
	}
	return strings.Join(words, ",")
}
