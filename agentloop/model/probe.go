package model

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/tidwall/gjson"
)

// maxProbe is how long Probe waits when the context and Server.Timeout allow more.
const maxProbe = 15 * time.Second

// Probe asks a server for its list of models, as a check before a run that costs
// no tokens. It returns an *Error when the server can't be reached, refuses the
// key (401, 403), or offers a whole list of models of which none is the
// configured one; then the error names the nearest. Every other answer says
// nothing certain (many servers have no such list) and gives nil.
//
// A list counts as whole when it is not empty, every entry has an id and nothing
// points to a further page. Ids match without regard to case, with or without a
// leading "models/", and a variant after a colon ("name:free") may be missing in the list.
func Probe(ctx context.Context, s Server) error {
	if err := s.Validate(); err != nil {
		return err
	}
	endpoint, err := s.endpoint("/models")
	if err != nil {
		return err
	}
	if s.Timeout <= 0 || s.Timeout > maxProbe {
		s.Timeout = maxProbe
	}
	t := newTarget(s, http.MethodGet, "/models")
	transport := s.Transport
	if transport == nil {
		own := NewTransport(Limits{})
		defer own.CloseIdleConnections()
		transport = own
	}
	if ctx.Err() != nil {
		return t.cancelled(ctx)
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(s.Timeout, func() { cancel(errTimeout) })
	defer timer.Stop()
	req := (&http.Request{
		Method: http.MethodGet, URL: endpoint, Host: endpoint.Host, Header: requestHeader(s),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(inner)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		e := t.transportFailure(ctx, context.Cause(inner), err)
		if e.Kind == KindTimeout {
			e.Hint = "is the server busy, or the wrong one? Check base_url"
		}
		return e
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := readAnswer(inner, resp, 0, s.maxAnswer(), cancel)
	if ctx.Err() != nil {
		return t.cancelled(ctx)
	}
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		return t.statusFailure(resp, raw)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil
	}
	names := listedModels(raw)
	if len(names) == 0 || offers(names, s.Model) {
		return nil
	}
	e := t.failure(KindNotFound, "the server does not list this model", "")
	near := nearest(names, s.Model, 3)
	quoted := make([]string, len(near))
	for i, name := range near {
		quoted[i] = strconv.Quote(textutil.Shorten(t.redact(name), 100))
	}
	e.Hint = "check model_name; "
	if len(near) == len(names) {
		e.Hint += "it offers " + strings.Join(quoted, ", ")
	} else {
		e.Hint += fmt.Sprintf("the nearest of the %d it offers: %s", len(names), strings.Join(quoted, ", "))
	}
	return e
}

// listedModels reads the ids of a list of models; nil when it is not whole.
func listedModels(raw []byte) []string {
	raw = bytes.TrimSpace(raw)
	if !chat.Valid(raw) {
		return nil
	}
	root := gjson.ParseBytes(raw)
	list := root.Get("data")
	if root.IsArray() { // Together and a few others send the bare list
		list = root
	}
	if !list.IsArray() || root.Get("has_more").Bool() {
		return nil
	}
	for _, key := range []string{"next", "next_page", "nextPageToken", "next_page_token"} {
		if v := root.Get(key); v.Exists() && v.Type != gjson.Null && v.String() != "" {
			return nil
		}
	}
	var names []string
	whole := true
	list.ForEach(func(_, entry gjson.Result) bool {
		id := entry.Get("id")
		whole = id.Type == gjson.String && id.Str != ""
		names = append(names, id.Str)
		return whole
	})
	if !whole {
		return nil
	}
	return names
}

func offers(names []string, model string) bool {
	want := plainName(model)
	base := want
	if i := strings.LastIndexByte(want, ':'); i > 0 {
		base = want[:i]
	}
	return slices.ContainsFunc(names, func(name string) bool {
		name = plainName(name)
		return name == want || name == base || strings.Contains(name, "*") // a gateway's wildcard
	})
}

func plainName(name string) string {
	return strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "models/")
}

// nearest returns the names most like the wanted one, best first.
func nearest(names []string, want string, n int) []string {
	want = plainName(want)
	return textutil.Rank(names, n, func(name string) int {
		name = plainName(name)
		d := textutil.Distance(want, name)
		if _, last, slash := strings.Cut(name, "/"); slash { // "org/name": the organisation is often left out or another
			d = min(d, textutil.Distance(want, last)+1)
		}
		if strings.Contains(name, want) || strings.Contains(want, name) {
			d /= 4
		}
		return d
	})
}
