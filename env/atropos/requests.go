package atropos

import (
	"errors"
	"math"
	"strconv"
)

// DecodeRegistration reads the body of /register.
func (rules Rules) DecodeRegistration(body []byte) (Registration, error) {
	var r Registration
	err := rules.decodeFields(body, []wanted{
		{"wandb_group", text(&r.WandbGroup), false},
		{"wandb_project", text(&r.WandbProject), false},
		{"batch_size", rules.positive(&r.BatchSize), false},
		{"max_token_len", rules.atLeast(-1, &r.MaxTokenLen), false},
		{"checkpoint_dir", text(&r.CheckpointDir), false},
		{"save_checkpoint_interval", whole(&r.SaveCheckpointInterval), false},
		{"starting_step", rules.atLeast(0, &r.StartingStep), false},
		{"num_steps", rules.atLeast(-1, &r.NumSteps), false},
	})
	return r, err
}

// DecodeEnvRegistration reads the body of /register-env.
func (rules Rules) DecodeEnvRegistration(body []byte) (EnvRegistration, error) {
	var r EnvRegistration
	err := rules.decodeFields(body, []wanted{
		{"max_token_length", rules.positive(&r.MaxTokenLength), false},
		{"desired_name", text(&r.DesiredName), false},
		{"weight", finite(&r.Weight), false},
		{"group_size", rules.positive(&r.GroupSize), false},
		{"min_batch_allocation", func(s *scanner) error {
			if s.null() {
				r.MinBatchAllocation = nil
				return nil
			}
			var f float64
			r.MinBatchAllocation = &f
			return rules.fraction(&f)(s)
		}, true},
	})
	return r, err
}

// DecodeEnvID reads the body of /status-env and /disconnect-env.
func (rules Rules) DecodeEnvID(body []byte) (int64, error) {
	var id int64
	err := rules.decodeFields(body, []wanted{{"env_id", whole(&id), false}})
	return id, err
}

// ParseEnvID reads an env_id in a query.
func ParseEnvID(value string) (int64, error) {
	digits, ok := integerText(value)
	if !ok {
		return 0, invalid("int_parsing", "Input should be a valid integer, unable to parse string as an integer", "env_id")
	}
	return *clamp([]byte(digits)), nil
}

// DecodeBatchID reads the body of /ack_batch.
func (rules Rules) DecodeBatchID(body []byte) (string, error) {
	var id string
	err := rules.decodeFields(body, []wanted{{"batch_id", text(&id), false}})
	return id, err
}

// wanted is a field of a small request.
type wanted struct {
	name     string
	read     func(*scanner) error
	optional bool
}

// decodeFields reads an object. Fields that aren't wanted are ignored.
func (rules Rules) decodeFields(body []byte, fields []wanted) error {
	s, err := rules.start(body)
	if err != nil {
		return err
	}
	if len(s.in) == s.i {
		return Missing()
	}
	var problems []Problem
	seen := make([]bool, len(fields))
	s.at = []string{""}
	err = s.object(func(key []byte) error {
		s.at = []string{string(key)}
		for i, f := range fields {
			if f.name != string(key) {
				continue
			}
			seen[i] = true
			from := s.i
			s.out = s.out[:0]
			s.begin()
			err := f.read(s)
			s.end()
			var wrong *typeError
			if !errors.As(err, &wrong) {
				return err
			}
			problems = append(problems, Problem{Type: wrong.kind, Loc: []string{f.name}, Msg: wrong.msg})
			s.i = from
			return s.skip()
		}
		return s.value(1)
	})
	if err == nil {
		for i, f := range fields {
			if !seen[i] && !f.optional {
				problems = append(problems, Problem{Type: "missing", Loc: []string{f.name}, Msg: "Field required"})
			}
		}
	}
	_, err = finish(s, struct{}{}, problems, err)
	return err
}

func text(into *string) func(*scanner) error {
	return func(s *scanner) error {
		start := s.i
		if s.peek() != '"' {
			return &typeError{kind: "string_type", msg: "Input should be a valid string"}
		}
		if err := s.str(); err != nil {
			return err
		}
		*into = unquote(s.in[start:s.i])
		return nil
	}
}

func whole(into *int64) func(*scanner) error {
	return func(s *scanner) error {
		if err := s.integer(); err != nil {
			return err
		}
		s.flush()
		n, err := strconv.ParseInt(string(s.out), 10, 64)
		if err != nil {
			return &typeError{kind: "int_parsing_size", msg: "Input should be an integer of at most 64 bits"}
		}
		*into = n
		return nil
	}
}

func finite(into *float64) func(*scanner) error {
	return func(s *scanner) error {
		if err := s.float(); err != nil {
			return err
		}
		s.flush()
		f, err := strconv.ParseFloat(string(s.out), 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return &typeError{kind: "finite_number", msg: "Input should be a finite number"}
		}
		*into = f
		return nil
	}
}

// positive reads an integer above 0.
func (rules Rules) positive(into *int64) func(*scanner) error {
	return func(s *scanner) error {
		if err := whole(into)(s); err != nil {
			return err
		}
		if *into <= 0 && !rules.AcceptImpossible {
			return &typeError{kind: "greater_than", msg: "Input should be greater than 0"}
		}
		return nil
	}
}

// atLeast reads an integer from a least one.
func (rules Rules) atLeast(least int64, into *int64) func(*scanner) error {
	return func(s *scanner) error {
		if err := whole(into)(s); err != nil {
			return err
		}
		if *into < least && !rules.AcceptImpossible {
			return &typeError{kind: "greater_than_equal", msg: "Input should be greater than or equal to " + strconv.FormatInt(least, 10)}
		}
		return nil
	}
}

// fraction reads a number between 0 and 1.
func (rules Rules) fraction(into *float64) func(*scanner) error {
	return func(s *scanner) error {
		if err := finite(into)(s); err != nil {
			return err
		}
		switch {
		case rules.AcceptImpossible:
		case *into < 0:
			return &typeError{kind: "greater_than_equal", msg: "Input should be greater than or equal to 0"}
		case *into > 1:
			return &typeError{kind: "less_than_equal", msg: "Input should be less than or equal to 1"}
		}
		return nil
	}
}
