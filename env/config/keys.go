package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"strings"
)

// The variables that hold a key when none is named.
const (
	openAIKey     = "OPENAI_API_KEY"
	openRouterKey = "OPENROUTER_API_KEY"
)

func variableName(s string) bool {
	name, ok := Secret{text: "$" + s}.variable()
	return ok && name == s
}

// findKeys replaces the variables that secrets name with what the variables hold.
func (l *loader) findKeys() {
	look := &keyring{Options: l.Options}
	if l.config.Agent == AgentModel {
		for i := range l.config.Servers {
			path := "openai"
			if len(l.config.Servers) > 1 {
				path = fmt.Sprintf("openai[%d]", i)
			}
			l.findServerKey(look, &l.config.Servers[i], path, len(l.config.Servers))
		}
	}
	l.findSecrets(look, l.env, "env")
	l.report.warnings = append(l.report.warnings, look.warnings...)
}

// findServerKey settles the key of one server: the one written or named for it, or
// the one its host has by rule. servers is how many there are to choose from, 0 for a
// server of an environment's own, which gets no key that was not meant for its host.
func (l *loader) findServerKey(look *keyring, s *Server, path string, servers int) {
	if isEmbedded(s) || !l.ok(path+".base_url", path+".api_key", path+".api_key_env") {
		return
	}
	switch {
	case s.APIKeyEnv != "":
		l.take(look, &s.APIKey, &s.KeySource, s.APIKeyEnv, path+".api_key_env", "")
	case s.APIKey.given:
		l.findSecret(look, &s.APIKey, &s.KeySource, path+".api_key")
	default:
		name, required := ruleKey(s.host(), servers)
		if name == "" {
			l.demandRedacted(s, path, servers)
			return
		}
		value, source, ok := look.find(name)
		switch {
		case ok:
			l.set(&s.APIKey, &s.KeySource, name, value, source, path+".api_key")
		case required:
			l.reject(path+".api_key", fmt.Sprintf("no key for %s: set %s in the environment or in .env, or name another variable with api_key_env", s.host(), name))
		default:
			l.demandRedacted(s, path, servers)
		}
	}
}

// demandRedacted rejects a server that had a key written out when its run was recorded, and
// has none now. Servers of this machine may do without.
func (l *loader) demandRedacted(s *Server, path string, servers int) {
	if !l.redacted[path+".api_key"] || l.origins[path+".base_url"].Kind == FromFlag || loopback(s.host()) {
		return
	}
	how := fmt.Sprintf("set %s in the environment or in .env, or name another variable with --%s.api_key_env", openAIKey, path)
	switch servers {
	case 0:
		how = fmt.Sprintf("name the variable that holds it with --%s.api_key_env", path)
	case 1:
	default:
		how = "give the configuration file again with --config"
	}
	l.report.at(Origin{Kind: FromDefault}, path+".api_key", fmt.Sprintf("the key for %s was written out in the configuration, and runs do not record keys: %s", s.host(), how))
}

// loopback reports whether only this machine can be reached at a host.
func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// ruleKey returns the variable that holds the key for a host. A host that is not
// known gets the usual key only when it is the only server, so that no key goes to
// a server it was not meant for.
func ruleKey(host string, servers int) (name string, required bool) {
	switch {
	case host == "api.openai.com":
		return openAIKey, true
	case host == "openrouter.ai":
		return openRouterKey, true
	case servers == 1:
		return openAIKey, false
	}
	return "", false
}

// findSecrets settles every secret among the fields.
func (l *loader) findSecrets(look *keyring, fields []bound, path string) {
	for _, f := range fields {
		p := join(path, f.name)
		switch f.shape {
		case shapeObject:
			if s, ok := f.value.Addr().Interface().(*Server); ok {
				l.guardOwnKey(s, p)
				l.findServerKey(look, s, p, 0)
				continue
			}
			l.findSecrets(look, bindStruct(f.value, f.fields), p)
		case shapeSecret:
			var source string
			s, ok := reflect.TypeAssert[Secret](f.value)
			if !ok || !l.ok(p) {
				continue
			}
			if l.redacted[p] && !s.given {
				l.report.at(Origin{Kind: FromDefault}, p, fmt.Sprintf("it was written out in the configuration, and runs do not record secrets: pass --%s with it or with '$NAME' of a variable that holds it", p))
				continue
			}
			l.findSecret(look, &s, &source, p)
			f.value.Set(reflect.ValueOf(s))
		}
	}
}

// guardOwnKey keeps the key that a file gives a server of an environment's own from
// travelling to a host that a flag names.
func (l *loader) guardOwnKey(s *Server, path string) {
	if l.origins[path+".base_url"].Kind != FromFlag || isEmbedded(s) {
		return
	}
	for _, field := range []string{path + ".api_key", path + ".api_key_env"} {
		if o := l.origins[field]; o.Kind == FromFile {
			l.reject(path+".base_url", fmt.Sprintf("the key of %s may be for another host and is not sent to %s; pass --%s.api_key_env too", o, s.host(), path))
			return
		}
	}
}

// findSecret settles one secret that is written out or names a variable.
func (l *loader) findSecret(look *keyring, s *Secret, source *string, path string) {
	name, ok := s.variable()
	switch {
	case s.name != "" || !s.IsSet():
	case !ok:
		l.reject(path, "starts with $ but is no variable; write $NAME or ${NAME}")
	case name != "":
		l.take(look, s, source, name, path, "$")
	default:
		where := "config file"
		switch l.origins[path].Kind {
		case FromFlag:
			where = "flag"
		case FromEnvironment, FromDefault:
			where = "environment's defaults"
		}
		if m := checkKey(s.text); m != "" {
			l.reject(path, m)
			return
		}
		*source = where
	}
}

// take reads a variable that was named outright, so that it has to be there.
func (l *loader) take(look *keyring, s *Secret, source *string, name, path, sign string) {
	value, where, ok := look.find(name)
	if !ok {
		l.reject(path, fmt.Sprintf("%s%s is not set; export %s, or write it into a .env file beside the config or in the working directory", sign, name, name))
		return
	}
	l.set(s, source, name, value, where, path)
}

func (l *loader) set(s *Secret, source *string, name, value, where, path string) {
	value = strings.TrimSpace(value)
	if m := checkKey(value); m != "" {
		l.reject(path, fmt.Sprintf("the value of %s (%s) %s", name, where, m))
		return
	}
	*s = Secret{text: value, name: name, given: true}
	*source = where
}

// checkKey says why a text can't be sent as a key, without showing it, or returns "".
func checkKey(text string) string {
	for _, r := range text {
		switch {
		case r <= ' ' || r == 0x7f:
			return "holds a space, a line break or a control character; it was probably copied with something around it"
		case r > 0x7e:
			return "holds a character outside ASCII; it was probably copied with something around it"
		}
	}
	return ""
}

// keyring finds variables in the process environment and in .env files.
type keyring struct {
	Options
	files    []dotenvFile
	read     bool
	warnings []string
}

type dotenvFile struct {
	path string
	vars []Variable
}

// find returns the value of a variable and where it was. An empty one is not set.
func (k *keyring) find(name string) (value, where string, ok bool) {
	if v, ok := k.LookupEnv(name); ok && strings.TrimSpace(v) != "" {
		return v, "environment variable " + name, true
	}
	if !k.read {
		k.read = true
		k.load()
	}
	for _, f := range k.files {
		for i := len(f.vars) - 1; i >= 0; i-- {
			if v := f.vars[i]; v.Name == name && strings.TrimSpace(v.Value) != "" {
				return v.Value, fmt.Sprintf("%s:%d", f.path, v.Line), true
			}
		}
	}
	return "", "", false
}

// load reads .env in the working directory and beside the config file.
func (k *keyring) load() {
	paths := []string{filepath.Join(k.WorkDir, ".env")}
	if k.File != "" {
		if p := filepath.Join(filepath.Dir(k.File), ".env"); !samePath(p, paths[0]) {
			paths = append(paths, p)
		}
	}
	for _, p := range paths {
		vars, bad, err := readDotenv(p)
		if err != nil {
			k.warnings = append(k.warnings, fmt.Sprintf("%s: not read: %v", p, err))
		}
		for _, line := range bad {
			k.warnings = append(k.warnings, fmt.Sprintf("%s:%d: not NAME=VALUE, left out", p, line))
		}
		k.files = append(k.files, dotenvFile{p, vars})
	}
}

func samePath(a, b string) bool {
	x, err1 := filepath.Abs(a)
	y, err2 := filepath.Abs(b)
	return err1 == nil && err2 == nil && x == y
}
