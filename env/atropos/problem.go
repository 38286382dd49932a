package atropos

import (
	"strconv"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// maxProblems bounds how many problems one reply lists.
const maxProblems = 20

// Problem is one thing that is wrong with the body of a request, in the form of
// FastAPI with pydantic 2.
type Problem struct {
	Type string
	Loc  []string // path below the body; elements that are numbers are indices
	Msg  string
}

// InvalidError says what is wrong with a request that could be read but not accepted.
type InvalidError struct{ Problems []Problem }

func (e *InvalidError) Error() string {
	if len(e.Problems) == 0 {
		return "invalid request"
	}
	p := e.Problems[0]
	text := "body"
	for _, part := range p.Loc {
		text += "." + part
	}
	return text + ": " + p.Msg
}

// AppendJSON appends the body of the reply with status 422.
func (e *InvalidError) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"detail":[`...)
	for i, p := range e.Problems {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"type":`...)
		dst = chat.AppendString(dst, p.Type)
		dst = append(dst, `,"loc":["body"`...)
		for _, part := range p.Loc {
			dst = append(dst, ',')
			if _, err := strconv.Atoi(part); err == nil {
				dst = append(dst, part...)
			} else {
				dst = chat.AppendString(dst, part)
			}
		}
		dst = append(dst, `],"msg":`...)
		dst = chat.AppendString(dst, p.Msg)
		// What was sent is not repeated: it may be megabytes.
		dst = append(dst, `,"input":{}}`...)
	}
	return append(dst, "]}"...)
}

// invalid is an InvalidError with one problem.
func invalid(kind, msg string, loc ...string) *InvalidError {
	return &InvalidError{[]Problem{{Type: kind, Loc: loc, Msg: msg}}}
}

// Missing is the error of a request that needs a body and has none.
func Missing() *InvalidError { return invalid("missing", "Field required") }

// NotJSON is the error of a body whose content type says that it isn't JSON.
func NotJSON() *InvalidError {
	return invalid("model_attributes_type", "Input should be a valid dictionary or object to extract fields from: send it as application/json")
}
