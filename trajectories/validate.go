package trajectories

import "github.com/hermes-env/hermes-env/agentloop/chat"

// validJSON says whether a line, or a part of it, is one JSON value. A message
// may nest as deep as chat allows, and a line holds messages inside a list.
func validJSON(b []byte) bool { return chat.ValidWithin(b, chat.MaxDepth+16) }
