package terminalbench

import (
	"regexp"
	"strings"
)

// setupFailures are lines that a verifier prints when its own tools could not be
// installed, by what failed. They are conservative: each names the network, a
// package index or a tool that is missing right after its installation, none is
// something that a test of an agent's work prints by itself.
var setupFailures = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"names could not be resolved", regexp.MustCompile(`(?m)^(?:curl: \(6\) Could not resolve host|wget: (?:unable to resolve host address|bad address)|Err:\d+ .*$\n.*Temporary failure resolving|W: Failed to fetch .*Temporary failure resolving|E: .*Temporary failure resolving)`)},
	{"a download failed", regexp.MustCompile(`(?m)^curl: \((?:5|7|18|22|28|35|52|56|60)\) .*(?:astral\.sh|github\.com|githubusercontent\.com|pypi\.org|pythonhosted\.org|debian\.org|ubuntu\.com)`)},
	{"packages could not be installed", regexp.MustCompile(`(?m)^E: (?:Unable to (?:locate package (?:curl|wget|ca-certificates|git|python3\S*|build-essential|tmux)|fetch some archives)|Failed to fetch|Package '\S+' has no installation candidate|The repository '.*' (?:does not have|no longer has) a Release file)`)},
	{"uv could not be installed or did not find its packages", regexp.MustCompile(`(?mi)^(?:error: (?:failed to (?:download|fetch)|request failed after|could not connect)|\s*×? ?failed to (?:download|fetch|resolve (?:dependencies|requirements)).*(?:$\n.*){0,6}(?:dns error|error sending request|connection (?:refused|reset)|timed? ?out|client error \(connect\)))`)},
	{"uv is missing", regexp.MustCompile(`(?m)(?:^|: )(?:uvx?): (?:command )?not found$`)},
	{"the installer of uv is missing", regexp.MustCompile(`(?m)(?:\.local/bin/env): No such file or directory$`)},
	{"pip could not reach its index", regexp.MustCompile(`(?m)^(?:WARNING: Retrying \(Retry\(total=0|ERROR: Could not (?:install packages due to an OSError: HTTPSConnectionPool|find a version that satisfies the requirement pytest)|ERROR: No matching distribution found for pytest)`)},
	{"curl is missing", regexp.MustCompile(`(?m)^.*test\.sh: (?:line )?\d+: (?:curl|wget|pip3?): (?:command )?not found$`)},
}

// testsRan are what pytest prints once it has run something: then its tools were
// there, and a reward of 0 is a verdict.
var testsRan = regexp.MustCompile(`(?m)^(?:=+ .*\b\d+ (?:passed|failed|error|skipped)\b.* =+$|(?:PASSED|FAILED) \S*test\S*::|collected [1-9]\d* items?)`)

// setupFailure says in words how a verifier's own preparations failed, "" when its
// output does not show that.
func setupFailure(output string) string {
	if testsRan.MatchString(output) {
		return ""
	}
	for _, f := range setupFailures {
		if at := f.pattern.FindString(output); at != "" {
			line, _, _ := strings.Cut(strings.TrimSpace(at), "\n")
			return f.what + ": " + excerpt(line)
		}
	}
	return ""
}
