package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chattemplate"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/replay"
	"github.com/hermes-env/hermes-env/agentloop/model/tokens"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/env/dataset/hub"
	"github.com/hermes-env/hermes-env/parsers"
)

// The kinds of servers. All but the first report tokens.
const (
	typeOpenAI   = "openai"
	typeVLLM     = "vllm"
	typeSGLang   = "sglang"
	typeGenerate = "generate"
)

func serverTypes() []string { return []string{typeOpenAI, typeVLLM, typeSGLang, typeGenerate} }

// samplesTokens says whether the rollouts of a server have exact tokens. The embedded
// model has them behind /generate only.
func samplesTokens(s config.Server) bool {
	return s.ServerType == typeGenerate || s.ServerType != typeOpenAI && !isReplay(s)
}

func isReplay(s config.Server) bool {
	_, _, embedded := s.Embedded()
	return embedded
}

// startSessions connects to servers that take token ids, and finds who renders
// conversations for them.
func (j *job) startSessions(ctx context.Context, m *modelClient, servers []model.Server, policy model.RetryPolicy) error {
	connect, renderer, err := j.tokenClients(ctx, m, servers, policy)
	if err != nil {
		return err
	}
	pool, err := model.ForClients(servers, model.PoolConfig{}, connect)
	if err != nil {
		return fail(ExitUsage, err)
	}
	m.closers = append(m.closers, func() error { pool.CloseIdleConnections(); return nil })
	m.watchRates(pool, j.out)
	cfg := tokens.Config{Client: j.metrics.timed(model.Retry(pool, policy), pool), Renderer: renderer}
	if local, ok := renderer.(*tokens.Local); ok {
		j.metrics.decodeWith(local.Decode)
	}
	if j.cfg.Env.ParseToolCalls != "never" {
		if cfg.Parser, err = parsers.Lookup(j.cfg.Env.ToolCallParser); err != nil {
			return fail(ExitUsage, fmt.Errorf("env.tool_call_parser: %w", err))
		}
	}
	if m.client, err = tokens.NewOneShot(cfg); err != nil {
		return err
	}
	m.sessions = func() (model.Session, error) { return tokens.New(cfg) }
	return nil
}

// tokenClients says how to speak to the servers, and who renders: nil is the server,
// within each chat request.
func (j *job) tokenClients(ctx context.Context, m *modelClient, servers []model.Server, policy model.RetryPolicy) (func(model.Server) (model.Client, error), tokens.Renderer, error) {
	vllm := func(s model.Server) (model.Client, error) { return model.NewVLLM(s) }
	sglang := func(s model.Server) (model.Client, error) { return model.NewSGLang(s) }
	generate := func(s model.Server) (model.Client, error) { return model.NewGenerate(s) }
	first := j.cfg.Servers[0]
	switch first.ServerType {
	case typeSGLang:
		local, err := j.localRenderer(ctx, first, chattemplate.SGLang)
		return sglang, local, err
	case typeGenerate: // servers of several engines have this protocol; the first was of vLLM
		local, err := j.localRenderer(ctx, first, chattemplate.VLLM)
		return generate, local, err
	}
	offers, err := model.ProbeTokens(ctx, servers[0])
	if err != nil {
		return nil, nil, fmt.Errorf("ask the server for its token endpoints: %w", err)
	}
	named := named(first.TokenizerName) != "" || named(j.cfg.Env.TokenizerName) != ""
	switch {
	case offers.Completions && offers.Tokenize:
		remote, err := model.NewServerTokenizer(servers, policy)
		if err != nil {
			return nil, nil, fail(ExitUsage, err)
		}
		m.closers = append(m.closers, func() error { remote.CloseIdleConnections(); return nil })
		return vllm, tokens.NewRemote(remote), nil
	case offers.Completions && named:
		local, err := j.localRenderer(ctx, first, chattemplate.VLLM)
		return vllm, local, err
	case offers.Generate:
		local, err := j.localRenderer(ctx, first, chattemplate.VLLM)
		return generate, local, err
	}
	j.out.Note(servers[0].String() + " has no endpoint that takes token ids: it is asked for the ids of its chat completions (return_token_ids), and a rollout forks where it tokenizes an answer anew")
	return vllm, nil, nil
}

// named is a configured name, "" where it says that there is none.
func named(name string) string {
	if name = strings.TrimSpace(name); strings.EqualFold(name, "none") {
		return ""
	}
	return name
}

// localRenderer loads tokenizer and template from a folder, the hub's cache or the hub,
// to render as the engine of the server does.
func (j *job) localRenderer(ctx context.Context, s config.Server, engine chattemplate.Engine) (*tokens.Local, error) {
	if isReplay(s) {
		return replayRenderer()
	}
	name, key := named(s.TokenizerName), "openai.tokenizer_name"
	if name == "" {
		name, key = named(j.cfg.Env.TokenizerName), "env.tokenizer_name"
	}
	if name == "" {
		name, key = s.ModelName, "openai.model_name"
	}
	dir := name
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "~") {
			return nil, fail(ExitUsage, fmt.Errorf("%s: %s is no folder", key, name))
		}
		if dir, err = j.fetchTokenizer(ctx, name); err != nil {
			return nil, fail(ExitUsage, fmt.Errorf("%s: fetch the tokenizer of %s, which is no folder here: %w (name a folder with tokenizer.json and a chat template in openai.tokenizer_name)", key, name, err))
		}
	}
	local, err := tokens.Open(dir, engine)
	if err != nil {
		return nil, fail(ExitUsage, fmt.Errorf("%s: %w", key, err))
	}
	return local, nil
}

// replayRenderer is tokenizer and template of the embedded model.
func replayRenderer() (_ *tokens.Local, err error) {
	dir, err := os.MkdirTemp("", "hermes-env-replay-")
	if err != nil {
		return nil, fmt.Errorf("write the tokenizer of the replay model: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }() // it is read whole
	if err := replay.WriteFolder(dir); err != nil {
		return nil, err
	}
	return tokens.Open(dir, chattemplate.VLLM)
}

// fetchTokenizer takes what belongs to the tokenizer of a model from the hub or its cache.
func (j *job) fetchTokenizer(ctx context.Context, name string) (string, error) {
	options, err := hub.FromEnvironment(func(name string) string {
		value, _ := j.getenv(name)
		return value
	})
	if err != nil {
		return "", err
	}
	options.Warn = j.out.Warn
	client, err := hub.New(options)
	if err != nil {
		return "", err
	}
	dir, listing, err := client.Snapshot(ctx, hub.Repo{Type: hub.Model, ID: name}, "main", belongsToTokenizer)
	if err != nil {
		return "", err
	}
	if len(listing.Files) == 0 {
		return "", errors.New("the repository holds no tokenizer.json")
	}
	return dir, nil
}

func belongsToTokenizer(f hub.File) bool {
	switch f.Path {
	case "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json", "chat_template.json", "chat_template.jinja":
		return true
	}
	return strings.HasPrefix(f.Path, "additional_chat_templates/") && path.Ext(f.Path) == ".jinja"
}
