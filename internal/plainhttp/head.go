package plainhttp

import (
	"bytes"
	"net/http"
	"net/textproto"
	"strings"
)

// parseHead reads the head of an ordinary answer: a final one of HTTP/1.1 on a connection
// that stays open, whole in begun, with a body of a known length. start is where the body
// begins. For any other, and for all that is not strictly as it should be, it returns nil:
// net/http then decides.
func parseHead(begun []byte) (resp *http.Response, start int, length int64) {
	const proto = "HTTP/1.1 "
	end := bytes.Index(begun, []byte("\r\n\r\n"))
	if end < len(proto)+3 || string(begun[:len(proto)]) != proto {
		return nil, 0, 0
	}
	head := string(begun[:end])
	status, fields, _ := strings.Cut(head[len(proto):], "\r\n")
	code, ok := digits(status[:min(3, len(status))])
	if !ok || len(status) < 4 || status[3] != ' ' || code < 200 || code == http.StatusNoContent || code == http.StatusNotModified || !printable(status) {
		return nil, 0, 0
	}
	n := strings.Count(fields, "\r\n") + 1
	header, values := make(http.Header, n), make([]string, n)
	length = -1
	for i := 0; fields != ""; i++ {
		var line string
		line, fields, _ = strings.Cut(fields, "\r\n")
		name, value, found := strings.Cut(line, ":")
		if !found || !isToken(name) || !printable(value) {
			return nil, 0, 0
		}
		name, value = textproto.CanonicalMIMEHeaderKey(name), strings.Trim(value, " \t")
		switch name {
		case "Content-Length":
			if length >= 0 {
				return nil, 0, 0
			}
			if length, ok = digits(value); !ok {
				return nil, 0, 0
			}
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return nil, 0, 0
			}
		case "Transfer-Encoding", "Trailer", "Pragma":
			return nil, 0, 0
		}
		if list := header[name]; list != nil {
			header[name] = append(list, value)
			continue
		}
		values[i] = value
		header[name] = values[i : i+1 : i+1]
	}
	if length < 0 {
		return nil, 0, 0
	}
	return &http.Response{
		Status: status, StatusCode: int(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: http.NoBody, ContentLength: length,
	}, end + 4, length
}

// digits reads a number of at most 18 digits.
func digits(s string) (n int64, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, s != "" && len(s) <= 18
}

// printable says whether a text has no control characters but tabs.
func printable(s string) bool {
	for i := range len(s) {
		if (s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// isToken says whether a text can be the name of a field.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}
