package model

// Session is the Client of one rollout that keeps the tokens of what it answers, for
// trainers that need exactly what was sampled. Complete is called by one goroutine at
// a time with a conversation that grows by the answers it gave.
type Session interface {
	Client
	// Sequences returns the tokens so far, one sequence per branch of the
	// conversation in the order in which the branches began.
	Sequences() []Sequence
	// Trainable returns nil when the tokens of every answer are known, else an error
	// that says which are not and why.
	Trainable() error
	// Close ends the session. What it kept stays readable.
	Close() error
}

// Masked is the mask of a token that is not trained on, UnknownLogprob what stands in
// place of its log-probability (the conventions of Atropos).
const (
	Masked         = -100
	UnknownLogprob = 1.0
)

// Sequence is one branch of a conversation as tokens. Tokens, Masks and Logprobs have
// the same length. A mask is the token itself where the model sampled it in this
// branch, and Masked elsewhere; a token that an earlier branch holds too is trained on
// there and masked here.
type Sequence struct {
	Tokens   []int
	Masks    []int
	Logprobs []float64
	Turns    []SequenceTurn
	// Fork says why the branch does not continue the one before it, "" where it does.
	Fork string
}

// SequenceTurn is one answer of the model within a sequence.
type SequenceTurn struct {
	Start, End    int    // its tokens are Tokens[Start:End]
	FinishReason  string // stop or length, in the server's words
	WeightVersion string // of the weights that sampled it, "" when the server doesn't say
	Server        string // base URL
	// Drift says that the chat template writes this answer in other characters than
	// were sampled, say a call with other spaces: the tokens are the sampled ones.
	Drift bool
	// Repeated says that an earlier branch holds the answer, too.
	Repeated bool
}
