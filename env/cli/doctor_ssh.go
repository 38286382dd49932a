package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh"
)

// ssh looks at the machine of ssh sandboxes and runs a command there.
func (d *doctor) ssh(ctx context.Context, j *job) []finding {
	c := d.sshConfig(j.cfg.Env)
	asking, cancel := context.WithTimeout(ctx, inspectTime)
	r, err := ssh.Inspect(asking, c)
	cancel()
	if err != nil {
		return []finding{noMachine(j.cfg.Env, err)}
	}
	found := []finding{{Check: "login", Level: levelOK, Found: "its key is known and " + r.Target + " lets in"}}
	found = append(found, d.machineFindings(j.cfg.Env, r)...)
	for _, f := range found {
		if f.Level == levelProblem {
			return found // a start would only say it again
		}
	}
	return append(found, d.tryBackend(ctx, j, "the disk, the memory and the log of the SSH server there may say more"))
}

// sshWord is how a person reaches the machine from a shell.
func sshWord(e config.Env) string {
	word := e.SSHHost
	if e.SSHUser != "" {
		word = e.SSHUser + "@" + word
	}
	word = shellWord(word)
	if e.SSHPort != 0 && e.SSHPort != 22 {
		word = "-p " + strconv.Itoa(e.SSHPort) + " " + word
	}
	return word
}

// noMachine says why a machine could not be looked at.
func noMachine(e config.Env, err error) finding {
	f := finding{Check: "connection", Level: levelProblem, Found: err.Error(), Fix: "ssh -v " + sshWord(e) + " true shows how far a connection gets"}
	switch {
	case errors.Is(err, ssh.ErrHostKey):
		f.Check = "host key"
		f.Fix = "compare the fingerprint with the machine's own, then ssh " + sshWord(e) + " true and answer yes; it is written to ~/.ssh/known_hosts"
	case errors.Is(err, ssh.ErrLogin):
		f.Check = "login"
		f.Fix = "ssh-copy-id " + sshWord(e) + ", or name another key with --env.ssh_key"
	case e.SSHHost == "":
		f.Fix = "--env.ssh_host HOST, or ssh_host below env: in the configuration"
	case errors.Is(err, context.DeadlineExceeded):
		f.Found = fmt.Sprintf("%s has not answered all questions within %s", e.SSHHost, inspectTime)
	}
	return f
}

// machineFindings judges what was seen on a machine.
func (d *doctor) machineFindings(e config.Env, r ssh.Report) []finding {
	found := []finding{{Check: "machine", Level: levelOK, Found: r.Kernel + ", " + r.Arch}}
	server := finding{Check: "server", Level: levelOK, Found: "is there already, in " + r.CacheDir}
	switch {
	case r.ServerNone != nil:
		server = finding{Check: "server", Level: levelProblem, Found: r.ServerNone.Error(), Fix: buildFix(r.Arch)}
	case !r.Uploaded:
		server.Found = "is uploaded at the first start, to " + r.CacheDir
	}
	cache := finding{Check: "directory", Level: levelOK, Found: r.CacheDir + " is the account's own, or can be made"}
	if r.CacheError != nil {
		cache = finding{Check: "directory", Level: levelProblem, Found: r.CacheDir + ": " + r.CacheError.Error(),
			Fix: "ssh " + sshWord(e) + " " + shellWord("ls -ld "+r.CacheDir+" "+r.CacheDir+"/boxes") + " shows whose it is; chmod go-w them, or remove them"}
	}
	found = append(found, server, cache)
	if r.CacheError == nil {
		found = append(found, machinePrograms(e, r))
	}
	found = append(found, machineSpace(e, r), machineSessions(r), d.leftovers(r.Held, r.Abandoned, "tree", "trees"))
	last := &found[len(found)-1]
	if r.Foreign > 0 {
		last.Found += fmt.Sprintf("; %d of runs on other machines", r.Foreign)
	}
	if last.Fix != "" {
		last.Fix = d.typed("cleanup --ssh-host " + shellWord(e.SSHHost))
		for _, flag := range []struct{ name, value string }{{"port", port(e)}, {"user", e.SSHUser}, {"key", e.SSHKey}, {"known-hosts", e.SSHKnownHosts}} {
			if flag.value != "" {
				last.Fix += " --ssh-" + flag.name + " " + shellWord(flag.value)
			}
		}
	}
	if r.Old > 0 {
		found = append(found, finding{Check: "versions", Level: levelOK, Found: fmt.Sprintf("%s of other versions in %s; those no run uses can be removed", count(r.Old, "server"), r.CacheDir)})
	}
	return found
}

// port is a configuration's port where it has to be said.
func port(e config.Env) string {
	if e.SSHPort == 0 || e.SSHPort == 22 {
		return ""
	}
	return strconv.Itoa(e.SSHPort)
}

func machinePrograms(e config.Env, r ssh.Report) finding {
	switch {
	case !r.RunsCache:
		return finding{Check: "programs", Level: levelProblem, Found: "none can be started from the disk of " + r.CacheDir + " (mounted noexec?), so not the server either",
			Fix: "set XDG_CACHE_HOME for the account to a directory on another disk; ssh " + sshWord(e) + " 'findmnt -T ~' shows how this one is mounted"}
	case !r.RunsTemp:
		return finding{Check: "programs", Level: levelWarning, Found: "none can be started from /tmp, which commands may try; sandboxes have a TMPDIR of their own", Fix: "mount -o remount,exec /tmp there, if commands need it"}
	}
	return finding{Check: "programs", Level: levelOK, Found: "can be started from the cache's disk and from /tmp"}
}

func machineSpace(e config.Env, r ssh.Report) finding {
	fix := "ssh " + sshWord(e) + " 'du -xh ~ | sort -h | tail' shows what takes room"
	switch {
	case !r.SpaceKnown:
		return finding{Check: "space", Level: levelWarning, Found: "not known: df there does not say", Fix: fix}
	case r.FreeBytes < 1<<30:
		return finding{Check: "space", Level: levelProblem, Found: shownBytes(r.FreeBytes) + " free", Fix: fix}
	case r.FreeBytes < 5<<30:
		return finding{Check: "space", Level: levelWarning, Found: shownBytes(r.FreeBytes) + " free", Fix: fix}
	}
	return finding{Check: "space", Level: levelOK, Found: shownBytes(r.FreeBytes) + " free"}
}

// fewSessions is how many a connection should have: each sandbox takes one, and a
// connection takes a handshake and a process of the server.
const fewSessions = 4

func machineSessions(r ssh.Report) finding {
	f := finding{Check: "sessions", Level: levelOK, Found: fmt.Sprintf("at least %d on a connection", r.Sessions)}
	if r.Sessions < r.Asked {
		f.Found = fmt.Sprintf("%d on a connection; more sandboxes at once take further connections", r.Sessions)
	}
	if r.Sessions < fewSessions {
		f.Level, f.Fix = levelWarning, "MaxSessions 10 in /etc/ssh/sshd_config there, then systemctl reload ssh"
	}
	return f
}

// tryBackend runs a command in a sandbox of the configuration's backend.
func (d *doctor) tryBackend(ctx context.Context, j *job, fix string) finding {
	failed := func(err error) finding {
		return finding{Check: "start", Level: levelProblem, Found: err.Error(), Fix: fix}
	}
	start := time.Now()
	p, err := j.newProvider()
	if err != nil {
		return failed(err)
	}
	defer func() { _ = closeProvider(p) }() // what is open was tried to be closed, and said
	if err := runEcho(ctx, p); err != nil {
		return failed(err)
	}
	return finding{Check: "start", Level: levelOK, Found: "a command ran, " + shownTime(time.Since(start)) + " from start to end"}
}
