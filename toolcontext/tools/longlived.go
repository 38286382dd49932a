package tools

import (
	"regexp"
	"strings"
)

var (
	detaching   = regexp.MustCompile(`(?:^|[;&|(\n]|\b(?:then|do|else)\s)\s*(?:nohup|disown|setsid)\b`)
	inlineJob   = regexp.MustCompile(`\s&\s`)
	trailingJob = regexp.MustCompile(`(?:^|[^&>])&\s*$`)
	servers     = []*regexp.Regexp{
		regexp.MustCompile(`\b(?:npm|pnpm|yarn|bun)\s+(?:run\s+)?(?:dev|start|serve|watch)\b`),
		regexp.MustCompile(`\bdocker\s+compose\s+up\b`),
		regexp.MustCompile(`\bnext\s+dev\b`),
		regexp.MustCompile(`(?:^|\s)(?:vite|nodemon|uvicorn|gunicorn)(?:\s|$)`),
		regexp.MustCompile(`\bpython[0-9.]*\s+-m\s+http\.server\b`),
	}
)

// longLived returns advice when a foreground command looks as if it would not end
// or would leave a job behind, else "". Quoted text is not looked at.
func longLived(command string) string {
	text := strings.TrimSpace(blankQuoted(command))
	for _, flag := range []string{" --help", " --version"} {
		if strings.Contains(text, flag) {
			return ""
		}
	}
	if strings.HasSuffix(text, " -h") || strings.HasSuffix(text, " -v") {
		return ""
	}
	if detaching.MatchString(text) || inlineJob.MatchString(text) || trailingJob.MatchString(text) {
		return "The command starts a background job, which a foreground call can't manage. Run the command itself with background=true, or in the foreground with a timeout."
	}
	for _, server := range servers {
		if server.MatchString(text) {
			return "The command looks like a server or a watcher that does not end by itself. Run it with background=true, or wrap it: timeout 20 COMMAND"
		}
	}
	return ""
}
