package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readServers resolves the openai: section. One server merges from all sources; a
// list of several replaces what was there, and flags can't say which one they mean.
func (l *loader) readServers() {
	specs, err := structSpecs(serverType, "")
	if err != nil {
		return // the tags of Server are checked by a test
	}
	defaults := l.config.Servers
	l.config.Servers = nil
	base := Origin{Kind: FromDefault}
	if len(defaults) > 0 {
		base = Origin{Kind: FromEnvironment, Name: l.config.Environment}
	}
	nodes, listed := l.serverNodes()
	var flags []Flag
	for _, f := range l.Flags {
		if strings.HasPrefix(f.Name, "openai.") {
			flags = append(flags, f)
		}
	}
	several := ""
	switch {
	case len(nodes) > 1:
		several = fmt.Sprintf("%s lists %d servers; change the one you mean in the file", l.File, len(nodes))
		for i, n := range nodes {
			l.readServer(specs, NewServer(), base, n, nil, fmt.Sprintf("openai[%d]", i))
		}
	case len(defaults) > 1 && !listed:
		several = fmt.Sprintf("environment %s brings %d servers; write an openai section with the server you mean into a config file", l.config.Environment, len(defaults))
		for i, s := range defaults {
			l.readServer(specs, s, base, nil, nil, fmt.Sprintf("openai[%d]", i))
		}
	case len(nodes) == 1 || len(defaults) == 1 || len(flags) > 0 && !listed:
		start := NewServer()
		if len(defaults) == 1 {
			start = defaults[0]
		} else {
			base = Origin{Kind: FromDefault}
		}
		var n *yaml.Node
		if len(nodes) == 1 {
			n = nodes[0]
		}
		l.readServer(specs, start, base, n, flags, "openai")
	}
	if several != "" {
		for _, f := range flags {
			l.report.at(Origin{Kind: FromFlag, Name: f.Name}, f.Name, several)
		}
	}
}

// serverNodes returns the entries of the section; listed reports whether the file
// has the section at all.
func (l *loader) serverNodes() (nodes []*yaml.Node, listed bool) {
	n := l.top("openai")
	switch {
	case n == nil || isNull(n):
		return nil, false
	case n.Kind == yaml.MappingNode:
		return []*yaml.Node{n}, true
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		return n.Content, true
	case n.Kind == yaml.SequenceNode:
		l.report.at(l.fileOrigin().at(n), "openai", "the list of servers is empty")
	default:
		l.report.at(l.fileOrigin().at(n), "openai", "want an object or a list of objects, got "+describe(n))
	}
	return nil, true
}

// readServer resolves one server from its sources, lowest first.
func (l *loader) readServer(specs []*fieldSpec, s Server, base Origin, n *yaml.Node, flags []Flag, path string) {
	l.config.Servers = append(l.config.Servers, s)
	server := &l.config.Servers[len(l.config.Servers)-1]
	fields := bindStruct(valueOf(server), specs)
	plain := NewServer()
	for i, f := range bindStruct(valueOf(&plain), specs) {
		o := Origin{Kind: FromDefault}
		if m := fields[i].checkBounds(fields[i].value); m != "" {
			l.report.at(base, join(path, f.name), m)
		}
		if string(f.appendJSON(nil, f.value)) != string(fields[i].appendJSON(nil, fields[i].value)) {
			o = base
		}
		l.origins[join(path, f.name)] = o
	}
	guard := keyGuard{loader: l, server: server, path: path}
	guard.layer(func() {})
	if n != nil {
		guard.layer(func() {
			d := l.decoder(l.fileOrigin())
			d.unknown = l.unknownKey("openai")
			// The original takes null for OpenAI's address, the default here.
			d.object(fields, withoutNull(n, "base_url"), path)
		})
	}
	guard.layer(func() {
		for _, f := range flags {
			l.readFlag(fields, f, path, strings.TrimPrefix(f.Name, "openai."))
		}
	})
	l.validateServer(server, n, path)
}

// keyGuard keeps a key from travelling to a host it was not given for: when a
// higher source names another host and no key, the lower source's key is dropped.
type keyGuard struct {
	*loader
	server *Server
	path   string
	named  bool   // a source so far named the host
	host   string // the host as the sources so far have it
}

// layer runs a function that applies one source to the server.
func (g *keyGuard) layer(apply func()) {
	key, name := g.server.APIKey, g.server.APIKeyEnv
	base := g.origins[g.path+".base_url"]
	keyAt, nameAt := g.origins[g.path+".api_key"], g.origins[g.path+".api_key_env"]
	apply()
	newBase := g.origins[g.path+".base_url"] != base
	newKey := g.origins[g.path+".api_key"] != keyAt && g.server.APIKey.given
	newName := g.origins[g.path+".api_key_env"] != nameAt && g.server.APIKeyEnv != ""
	switch {
	case newKey && newName:
		g.report.at(g.origins[g.path+".api_key_env"], g.path+".api_key_env", "api_key is given as well; keep one of the two")
	case newKey:
		g.server.APIKeyEnv = ""
	case newName:
		g.server.APIKey = Secret{}
	case newBase && g.named && (key.given || name != "") && g.server.host() != g.host:
		old := keyAt
		if name != "" {
			old = nameAt
		}
		g.server.APIKey, g.server.APIKeyEnv = Secret{}, ""
		g.report.warn(g.origins[g.path+".base_url"], g.path+".base_url", fmt.Sprintf(
			"the key of %s is for %s and is not sent to %s; pass --openai.api_key_env to name one for it", old, g.host, g.server.host()))
	}
	if newBase || base.Kind == FromEnvironment {
		g.named = true
	}
	g.host = g.server.host()
}
