package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
)

// Resolved is a configuration with everything filled in, checked and accounted for.
type Resolved struct {
	Config
	Mode     Mode
	File     string   // the YAML file, "" without one
	Warnings []string // one line each; for people, and for the record of the run
	// Digest is "sha256:" and the hex digest of what can affect results: the command,
	// the environment, the agent, the env: fields without affects:"no", and the set of
	// models behind the servers. Addresses, keys, limits on how much runs at once,
	// retries and paths don't count. Two runs with the same digest asked the same
	// thing, and a run may be resumed when its digest is the same.
	Digest string

	canonical json.RawMessage
	affecting json.RawMessage
	defaults  json.RawMessage
	origins   map[string]Origin
	env       []bound
	servers   [][]bound
}

// CanonicalJSON returns the whole configuration as one line of JSON: fields in the
// order of their declaration, secrets replaced.
func (r *Resolved) CanonicalJSON() json.RawMessage { return slices.Clone(r.canonical) }

// AffectingJSON returns what Digest is the digest of, in the form of CanonicalJSON: the
// fields that can affect results.
func (r *Resolved) AffectingJSON() json.RawMessage { return slices.Clone(r.affecting) }

// DefaultsJSON returns the env: section of AffectingJSON with the defaults that the
// program, the environment and the command give to every field.
func (r *Resolved) DefaultsJSON() json.RawMessage { return slices.Clone(r.defaults) }

// MarshalJSON returns CanonicalJSON.
func (r *Resolved) MarshalJSON() ([]byte, error) { return r.CanonicalJSON(), nil }

// Origin says where a field's value came from. Fields are named as flags are; of
// several servers, "openai[1].base_url" is a field of the second.
func (r *Resolved) Origin(field string) Origin {
	if o, ok := r.origins[field]; ok {
		return o
	}
	return Origin{Kind: FromDefault}
}

func (l *loader) resolve() (*Resolved, error) {
	r := &Resolved{Config: l.config, Mode: l.Mode, File: l.File, Warnings: l.report.warnings, origins: l.origins}
	// The fields were bound to the loader's copy; bind them to the one handed out.
	specs, err := structSpecs(envType, "")
	if err != nil {
		return nil, err
	}
	r.env = bindStruct(valueOf(&r.Env), specs)
	own, err := ownFields(r.Own, r.env)
	if err != nil {
		return nil, err
	}
	r.env = append(r.env, own...)
	specs, err = structSpecs(serverType, "")
	if err != nil {
		return nil, err
	}
	for i := range r.Servers {
		r.servers = append(r.servers, bindStruct(valueOf(&r.Servers[i]), specs))
	}
	r.canonical, r.affecting, r.defaults = r.encode(false), r.encode(true), l.defaults
	sum := sha256.Sum256(r.affecting)
	r.Digest = "sha256:" + hex.EncodeToString(sum[:])
	return r, nil
}

// encode writes the configuration as JSON, for the digest only what affects results.
func (r *Resolved) encode(digest bool) []byte {
	out := append([]byte(`{"mode":`), encodeText(string(r.Mode))...)
	out = append(append(out, `,"environment":`...), encodeText(r.Environment)...)
	out = append(append(out, `,"agent":`...), encodeText(r.Agent)...)
	out = append(append(out, `,"env":`...), appendObject(nil, r.env, digest)...)
	servers := make([]string, 0, len(r.servers))
	for _, s := range r.servers {
		servers = append(servers, string(appendObject(nil, s, digest)))
	}
	if digest {
		// Servers of the same model share the work; how many there are changes nothing.
		slices.Sort(servers)
		servers = slices.Compact(servers)
		if r.Agent != AgentModel {
			servers = nil
		}
	}
	out = append(out, `,"openai":[`...)
	for i, s := range servers {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, s...)
	}
	return append(out, "]}"...)
}

func appendObject(out []byte, fields []bound, digest bool) []byte {
	out = append(out, '{')
	first := true
	for _, f := range fields {
		if digest && !f.affects {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(append(out, encodeText(f.name)...), ':')
		if f.shape == shapeObject {
			out = appendObject(out, bindStruct(f.value, f.fields), digest)
			continue
		}
		out = f.appendJSON(out, f.value)
	}
	return append(out, '}')
}

// appendJSON appends a field's value as JSON.
func (s *fieldSpec) appendJSON(out []byte, v reflect.Value) []byte {
	if s.pointer {
		if v.IsNil() {
			return append(out, "null"...)
		}
		v = v.Elem()
	}
	switch s.shape {
	case shapeBool:
		return strconv.AppendBool(out, v.Bool())
	case shapeInt:
		return strconv.AppendInt(out, v.Int(), 10)
	case shapeFloat:
		return append(out, formatFloat(v.Float())...)
	case shapeText:
		if s.nullable && !s.pointer && v.String() == "" {
			return append(out, "null"...)
		}
		return append(out, encodeText(v.String())...)
	case shapeSecret:
		secret, _ := reflect.TypeAssert[Secret](v)
		text, err := secret.MarshalJSON()
		if err != nil {
			return append(out, "null"...)
		}
		return append(out, text...)
	case shapeJSON:
		if v.Len() == 0 {
			return append(out, "null"...)
		}
		return append(out, v.Bytes()...)
	case shapeObject:
		return appendObject(out, bindStruct(v, s.fields), false)
	case shapeList:
		if v.IsNil() {
			return append(out, "null"...)
		}
		out = append(out, '[')
		for i := range v.Len() {
			if i > 0 {
				out = append(out, ',')
			}
			out = s.elem.appendJSON(out, v.Index(i))
		}
		return append(out, ']')
	case shapeMap:
		return s.appendMap(out, v)
	}
	panic(fmt.Sprintf("config: shape %d has no JSON", s.shape))
}

func (s *fieldSpec) appendMap(out []byte, v reflect.Value) []byte {
	if v.IsNil() {
		return append(out, "null"...)
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	out = append(out, '{')
	for i, k := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, encodeText(k.String())...), ':')
		out = s.elem.appendJSON(out, v.MapIndex(k))
	}
	return append(out, '}')
}
