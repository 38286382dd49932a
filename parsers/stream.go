package parsers

import "strings"

// textStream is the Stream of every format: it keeps the whole text, because a
// machine may need any of it, and lets the machine go on whenever it grows.
type textStream struct {
	buffer  strings.Builder
	machine machine
	pass    pass
}

// Feed implements [Stream].
func (s *textStream) Feed(delta string) []Event {
	if s.pass.final || delta == "" {
		return nil
	}
	s.buffer.WriteString(delta)
	s.pass.text = s.buffer.String() // shares the buffer, copies nothing
	s.advance()
	return s.take()
}

// Finish implements [Stream].
func (s *textStream) Finish() []Event {
	if s.pass.final {
		return nil
	}
	p := &s.pass
	p.final = true
	s.advance()
	p.drop()
	p.close()
	switch plain := p.failed || len(p.calls) == 0; {
	case plain && p.started == 0:
		p.give(len(p.text))
	case plain || p.revised || p.started != len(p.calls):
		truth := p.result()
		p.events = append(p.events, Event{Kind: Revised, Parsed: &truth})
	}
	return s.take()
}

func (s *textStream) advance() {
	if s.pass.failed {
		if s.pass.started == 0 {
			s.pass.give(len(s.pass.text))
		}
		return
	}
	s.machine.scan(&s.pass)
}

func (s *textStream) take() []Event {
	events := s.pass.events
	s.pass.events = nil
	return events
}
