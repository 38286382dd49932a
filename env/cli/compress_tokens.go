package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer"
	"github.com/hermes-env/hermes-env/env/dataset/hub"
	"github.com/hermes-env/hermes-env/trajectories/compress"
)

// charsPerToken names the estimate in place of a tokenizer.
const charsPerToken = "chars/4"

// realTokens counts with a model's own tokenizer.
type realTokens struct{ *tokenizer.Tokenizer }

// Count returns the number of tokens; a text the tokenizer has no token for is estimated.
func (t realTokens) Count(text string) int {
	n, err := t.Tokenizer.Count(text)
	if err != nil {
		return compress.Estimate{}.Count(text)
	}
	return n
}

// findCounter finds the tokenizer: a folder, or a model in the hub's cache. One that was
// asked for by flag has to be there; one of the settings may be missing, with a warning.
func (j *compressJob) findCounter() error {
	name, asked := j.Tokenizer, j.Tokenizer != ""
	if !asked {
		name = j.settings.Tokenizer.Name
	}
	j.counter, j.counting = compress.Estimate{}, charsPerToken
	if name == charsPerToken {
		return nil
	}
	found, err := loadTokenizer(j.ctx, name, func(v string) string { text, _ := j.getenv(v); return text })
	if err == nil {
		j.counter, j.counting = realTokens{found}, name
		return nil
	}
	if asked {
		return fmt.Errorf("--tokenizer: %w (--tokenizer %s estimates)", err, charsPerToken)
	}
	j.out.Warn(fmt.Sprintf("tokens are estimated, four characters each: %v; name a folder with tokenizer.json by --tokenizer to count them", err))
	return nil
}

func loadTokenizer(ctx context.Context, name string, getenv func(string) string) (*tokenizer.Tokenizer, error) {
	if name == "" {
		return nil, errors.New("no tokenizer is named")
	}
	if isFile(filepath.Join(name, "tokenizer.json")) {
		return tokenizer.Load(name)
	}
	if isFile(name) {
		return tokenizer.LoadFile(name)
	}
	repo := hub.Repo{Type: hub.Model, ID: name}
	if err := repo.Check(); err != nil {
		return nil, fmt.Errorf("there is no folder %s with a tokenizer.json", name)
	}
	options, err := hub.FromEnvironment(getenv)
	if err != nil {
		return nil, err
	}
	options.Offline = true // what is not there is not fetched
	client, err := hub.New(options)
	if err != nil {
		return nil, err
	}
	path, err := client.Download(ctx, repo, "", "tokenizer.json")
	if err != nil {
		return nil, fmt.Errorf("no tokenizer.json of %s in a folder of that name or in the cache of the Hugging Face hub", name)
	}
	return tokenizer.LoadFile(path)
}
