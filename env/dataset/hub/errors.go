package hub

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// What the hub, or the cache, may lack. Errors of this package wrap them.
var (
	// ErrRepoNotFound: no such repository, or a private one.
	ErrRepoNotFound = errors.New("repository not found")
	// ErrGated: the repository's conditions have not been accepted.
	ErrGated = errors.New("repository is gated")
	// ErrRevisionNotFound: the repository has no such branch, tag or commit.
	ErrRevisionNotFound = errors.New("revision not found")
	// ErrFileNotFound: the revision has no such file.
	ErrFileNotFound = errors.New("file not found")
	// ErrUnauthorized: the token is not valid or may not read this.
	ErrUnauthorized = errors.New("not authorized")
	// ErrRateLimited: the hub wants fewer requests, also after waiting.
	ErrRateLimited = errors.New("rate limited")
	// ErrUnreachable: the hub gave no usable answer, also after several attempts.
	ErrUnreachable = errors.New("hub not reachable")
	// ErrNotCached: the file or revision is not in the cache and may not be fetched.
	ErrNotCached = errors.New("not in the cache")
	// ErrCorrupt: what arrived, or what is in the cache, is not what the hub lists.
	ErrCorrupt = errors.New("wrong content")
	// ErrNoSpace: the disk with the cache is full.
	ErrNoSpace = errors.New("no space left")
)

// target is what a request is about, for its errors.
type target struct {
	repo     Repo
	revision string
	path     string
}

func (t target) String() string {
	s := t.repo.String()
	if t.path != "" {
		s += ", file " + t.path
	}
	if t.revision != "" && t.revision != DefaultRevision {
		s += ", revision " + t.revision
	}
	return s
}

// StatusError is an answer of the hub that is not the wanted one. It wraps one of the
// package's errors.
type StatusError struct {
	// Status is the HTTP status, Code and Message the hub's own explanation, if any.
	Status        int
	Code, Message string

	text string
	kind error
}

// Error says what happened and what to do about it.
func (e *StatusError) Error() string { return e.text }

// Unwrap returns the package's error of this kind.
func (e *StatusError) Unwrap() error { return e.kind }

// statusError explains an answer.
func (c *Client) statusError(t target, resp *http.Response) *StatusError {
	e := &StatusError{
		Status:  resp.StatusCode,
		Code:    resp.Header.Get("X-Error-Code"),
		Message: c.redact(resp.Header.Get("X-Error-Message")),
	}
	page := c.endpoint.String() + "/" + t.repo.webPath()
	signIn := "set HF_TOKEN to a token that may read it"
	if c.options.Token != "" {
		signIn = "check that the token (HF_TOKEN) may read it"
	}
	badToken := e.Status == http.StatusUnauthorized && strings.Contains(e.Message, "Invalid credentials")
	switch {
	case e.Code == "RevisionNotFound":
		e.kind = ErrRevisionNotFound
		e.text = fmt.Sprintf("%s has no revision %q: give a branch, tag or commit that %s shows", t.repo, t.revision, page)
	case e.Code == "EntryNotFound":
		e.kind = ErrFileNotFound
		e.text = fmt.Sprintf("%s has no %q at revision %q: see %s/tree/%s", t.repo, t.path, t.revision, page, t.revision)
	case e.Code == "GatedRepo":
		e.kind = ErrGated
		e.text = fmt.Sprintf("%s is gated: accept its conditions at %s, then %s", t.repo, page, signIn)
	case badToken:
		e.kind = ErrUnauthorized
		e.text = fmt.Sprintf("the hub does not accept the token: make a new one at %s/settings/tokens and set HF_TOKEN, or unset it", c.endpoint)
	case e.Code == "RepoNotFound", e.Status == http.StatusUnauthorized:
		e.kind = ErrRepoNotFound
		e.text = fmt.Sprintf("%s does not exist on %s or is private: check the name, or %s", t.repo, c.endpoint, signIn)
	case e.Status == http.StatusForbidden:
		e.kind = ErrUnauthorized
		e.text = fmt.Sprintf("%s may not be read: %s", t.repo, signIn)
	case e.Status == http.StatusTooManyRequests:
		e.kind = ErrRateLimited
		e.text = fmt.Sprintf("%s: the hub limits the rate of requests: wait some minutes", t)
		if c.options.Token == "" {
			e.text += ", or set HF_TOKEN, which raises the limit"
		}
	case e.Status == http.StatusNotFound:
		e.kind = ErrRepoNotFound
		e.text = fmt.Sprintf("%s was not found on %s", t, c.endpoint)
	default:
		e.kind = ErrUnreachable
		e.text = fmt.Sprintf("%s: the hub answered %d %s", t, e.Status, http.StatusText(e.Status))
	}
	if e.Message != "" {
		e.text += " (the hub says: " + e.Message + ")"
	}
	return e
}

// redact makes text from outside fit for a message: one line, not long, no token.
func (c *Client) redact(s string) string {
	if t := string(c.options.Token); t != "" {
		s = strings.ReplaceAll(s, t, c.options.Token.String())
	}
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if runes := []rune(s); len(runes) > 300 {
		s = string(runes[:300]) + "…"
	}
	return s
}
