package serve

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/trajectories"
)

// PlaceholderOverride is what groups with placeholder tokens have in group_overrides.
const PlaceholderOverride = "placeholder_tokens"

// Has says whether the group of a step was taken, in this process or before.
func (w *Worker) Has(step int) bool {
	return w.spool.has(step) && (w.config.GroupFile == nil || w.config.GroupFile.Has(step))
}

// Write takes a group for the trainer. When it returns without an error the group is
// on disk and will be sent.
func (w *Worker) Write(g trajectories.Group) error {
	if w.config.GroupFile != nil && !w.config.GroupFile.Has(g.Step) {
		if err := w.config.GroupFile.Write(g); err != nil {
			return err
		}
	}
	if w.spool.has(g.Step) {
		return nil
	}
	parcel, packed, err := w.parcel(g)
	if err != nil {
		return err
	}
	if err := w.spool.add(parcel, packed); err != nil {
		return err
	}
	w.mu.Lock()
	w.wake()
	w.mu.Unlock()
	w.config.Observer.Collected(describe(g))
	return nil
}

// errNoTokens keeps invented tokens from trainers that were not told of them.
var errNoTokens = errors.New("the model servers reported no tokens for it, and a trainer needs those that were sampled: use a server of the type vllm, sglang or generate")

// parcel makes a group ready to be sent: its JSON, packed, without its opening brace.
func (w *Worker) parcel(g trajectories.Group) (Parcel, []byte, error) {
	p := Parcel{Step: g.Step, ItemID: g.ItemID, Sequences: int64(len(g.Sequences)), Key: fmt.Sprintf("%s-%d-%s", w.spool.run(), g.Step, g.Key)}
	messages := w.config.IncludeMessages
	for i := range g.Sequences {
		s := &g.Sequences[i]
		p.Tokens += int64(len(s.Tokens))
		if s.Tokens != nil {
			continue
		}
		if !w.config.Placeholders {
			return p, nil, fmt.Errorf("send the group of step %d: %w", g.Step, errNoTokens)
		}
		messages = true
		object, err := chat.ParseObject(g.Overrides)
		if err != nil || g.Overrides == nil {
			object = nil
		}
		object.Set(PlaceholderOverride, []byte("true"))
		g.Overrides = object.Append(nil)
	}
	wire, err := env.WireGroup(&g, messages)
	if err != nil {
		return p, nil, err
	}
	content, err := atropos.AppendGroup(nil, wire)
	if err != nil {
		return p, nil, fmt.Errorf("send the group of step %d: %w", g.Step, err)
	}
	if content, err = withoutSender(content); err != nil {
		return p, nil, fmt.Errorf("send the group of step %d: %w", g.Step, err)
	}
	packed, err := pack(content)
	return p, packed, err
}

// withoutSender takes the opening brace and the empty env_id off the JSON of a group.
// What follows that field holds nothing but numbers, so that the last occurrence is it.
func withoutSender(content []byte) ([]byte, error) {
	field := []byte(`"env_id":null,`)
	at := bytes.LastIndex(content, field)
	if at < 0 {
		return nil, errors.New("its JSON has no place for the sender")
	}
	return append(content[1:at], content[at+len(field):]...), nil
}

// maskedToken marks a position that is not trained on.
const maskedToken = -100

func describe(g trajectories.Group) Collected {
	c := Collected{Step: g.Step, Sequences: len(g.Sequences)}
	for _, s := range g.Sequences {
		trained := 0
		for _, m := range s.Masks {
			if m != maskedToken {
				trained++
			}
		}
		c.Lengths = append(c.Lengths, trained)
		c.MeanScore += s.Score / float64(len(g.Sequences))
	}
	return c
}
