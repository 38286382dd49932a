package modeltest

import (
	"net/http"
	"strconv"
	"time"
)

// Script answers a request. It is called from many goroutines at once.
type Script func(*Request) Reply

// Always gives every request the same reply.
func Always(reply Reply) Script { return func(*Request) Reply { return reply } }

// Turns gives the n-th turn of every conversation the n-th reply. The turn is
// the number of assistant messages in the request, so any number of
// conversations can play at once. A turn past the end is refused with 400.
func Turns(replies ...Reply) Script {
	return func(r *Request) Reply {
		turn := r.Turn()
		if turn >= len(replies) {
			return Status(http.StatusBadRequest, "the script has "+strconv.Itoa(len(replies))+" turns and was asked for turn "+strconv.Itoa(turn+1))
		}
		return replies[turn]
	}
}

// InOrder gives the n-th request to the server the n-th reply, and the last
// reply to all later ones. It suits faults that heal: InOrder(Status(503), Text("ok")).
func InOrder(replies ...Reply) Script {
	return func(r *Request) Reply {
		if len(replies) == 0 {
			return Status(http.StatusBadRequest, "the script has no replies")
		}
		return replies[min(r.Number, len(replies)-1)]
	}
}

// ByPrompt chooses a script by the text of the first user message; other prompts are refused with 400.
func ByPrompt(scripts map[string]Script) Script {
	return func(r *Request) Reply {
		if script, ok := scripts[r.Prompt()]; ok {
			return script(r)
		}
		return Status(http.StatusBadRequest, "no script for the prompt "+strconv.Quote(r.Prompt()))
	}
}

// Delayed adds a latency before the headers of every reply. The function is
// called once per request and may be random.
func Delayed(script Script, latency func(*Request) time.Duration) Script {
	return func(r *Request) Reply {
		reply := script(r)
		return reply.After(reply.delay + latency(r))
	}
}
