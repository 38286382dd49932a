package atropos

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Masked is the mask value of a position that is not trained on; elsewhere the
// mask holds the token itself.
const Masked = -100

// PlaceholderLogprob stands in inference_logprobs at masked positions.
const PlaceholderLogprob = 1.0

// Group is a group on the wire: parallel lists with one element per sequence.
// Nil lists are sent as null.
type Group struct {
	Tokens            [][]int64           `json:"tokens"`             // [sequence][position]
	Masks             [][]int64           `json:"masks"`              // [sequence][position]
	Scores            []float64           `json:"scores"`             // [sequence]
	Advantages        [][]float64         `json:"advantages"`         // [sequence][position]
	RefLogprobs       [][]float64         `json:"ref_logprobs"`       // [sequence][position]
	Messages          [][]json.RawMessage `json:"messages"`           // [sequence][turn], objects with role and content
	GenerationParams  json.RawMessage     `json:"generation_params"`  // an object
	InferenceLogprobs [][]float64         `json:"inference_logprobs"` // [sequence][position]
	Overrides         []json.RawMessage   `json:"overrides"`          // [sequence], objects
	GroupOverrides    json.RawMessage     `json:"group_overrides"`    // an object
	Images            json.RawMessage     `json:"images"`             // anything
	EnvID             *int64              `json:"env_id"`             // the sender
	DistillTokenIDs   [][][]int64         `json:"distill_token_ids"`  // [sequence][position][k]
	DistillLogprobs   [][][]float64       `json:"distill_logprobs"`   // [sequence][position][k]
}

// AppendGroup appends the compact JSON of a group to dst: all 14 fields in their
// order. It refuses numbers that JSON can't hold and raw values that aren't JSON;
// whether the lengths fit each other is for the receiver to judge.
func AppendGroup(dst []byte, g *Group) ([]byte, error) {
	e := encoder{dst: dst}
	e.key("tokens")
	appendList(&e, g.Tokens, e.ints)
	e.key("masks")
	appendList(&e, g.Masks, e.ints)
	e.key("scores")
	e.floats(g.Scores)
	e.key("advantages")
	appendList(&e, g.Advantages, e.floats)
	e.key("ref_logprobs")
	appendList(&e, g.RefLogprobs, e.floats)
	e.key("messages")
	appendList(&e, g.Messages, func(turns []json.RawMessage) { appendList(&e, turns, e.raw) })
	e.key("generation_params")
	e.raw(g.GenerationParams)
	e.key("inference_logprobs")
	appendList(&e, g.InferenceLogprobs, e.floats)
	e.key("overrides")
	appendList(&e, g.Overrides, e.raw)
	e.key("group_overrides")
	e.raw(g.GroupOverrides)
	e.key("images")
	e.raw(g.Images)
	e.key("env_id")
	if g.EnvID == nil {
		e.dst = append(e.dst, "null"...)
	} else {
		e.int(*g.EnvID)
	}
	e.key("distill_token_ids")
	appendList(&e, g.DistillTokenIDs, func(rows [][]int64) { appendList(&e, rows, e.ints) })
	e.key("distill_logprobs")
	appendList(&e, g.DistillLogprobs, func(rows [][]float64) { appendList(&e, rows, e.floats) })
	e.dst = append(e.dst, '}')
	if e.err != nil {
		return dst, fmt.Errorf("encode group: %w", e.err)
	}
	return e.dst, nil
}

// encoder appends values and keeps the first thing that went wrong.
type encoder struct {
	dst []byte
	at  string // the field that is being written, for messages
	err error
}

func (e *encoder) key(name string) {
	separator := byte(',')
	if e.at == "" {
		separator = '{'
	}
	e.at = name
	e.dst = append(e.dst, separator, '"')
	e.dst = append(e.dst, name...)
	e.dst = append(e.dst, `":`...)
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = fmt.Errorf("%s %w", e.at, err)
	}
}

func (e *encoder) int(n int64)      { e.dst = strconv.AppendInt(e.dst, n, 10) }
func (e *encoder) ints(row []int64) { appendList(e, row, e.int) }

func (e *encoder) floats(row []float64) { appendList(e, row, e.float) }

// float writes a number so that it reads back as a float everywhere: with a point
// or an exponent.
func (e *encoder) float(f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		e.fail(fmt.Errorf("holds %v, which is not a finite number", f))
		return
	}
	start := len(e.dst)
	e.dst = strconv.AppendFloat(e.dst, f, 'g', -1, 64)
	for _, c := range e.dst[start:] {
		if c == '.' || c == 'e' {
			return
		}
	}
	e.dst = append(e.dst, ".0"...)
}

func (e *encoder) raw(value json.RawMessage) {
	if value == nil {
		e.dst = append(e.dst, "null"...)
		return
	}
	if !chat.Valid(value) {
		e.fail(errors.New("holds a value that is not JSON"))
		return
	}
	e.dst = append(e.dst, value...)
}

func appendList[T any](e *encoder, list []T, element func(T)) {
	if list == nil {
		e.dst = append(e.dst, "null"...)
		return
	}
	e.dst = append(e.dst, '[')
	for i, v := range list {
		if i > 0 {
			e.dst = append(e.dst, ',')
		}
		element(v)
	}
	e.dst = append(e.dst, ']')
}
