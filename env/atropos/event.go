package atropos

// Event is one change of the state: everything needed to make it again. A server
// writes events down in the order in which they were applied.
type Event struct {
	Op       Op            `json:"op"`
	Trainer  *Registration `json:"trainer,omitempty"`
	Step     int64         `json:"step,omitempty"`
	Worker   *Worker       `json:"worker,omitempty"`
	Env      int64         `json:"env,omitempty"` // index of a worker
	Size     int64         `json:"size,omitempty"`
	Added    []Added       `json:"added,omitempty"`
	Batches  []Formed      `json:"batches,omitempty"`
	Batch    string        `json:"batch,omitempty"`
	Entry    uint64        `json:"entry,omitempty"`
	Place    *Place        `json:"place,omitempty"`
	Answered *Answer       `json:"answered,omitempty"`
}

// Op names what an event does.
type Op string

// The events.
const (
	OpRegister   Op = "register"   // Trainer, Step: a trainer's settings
	OpStart      Op = "start"      // the trainer asked for its first batch
	OpWorker     Op = "worker"     // Worker: a worker registered
	OpDisconnect Op = "disconnect" // Env
	OpRelease    Op = "release"    // Env: its buffered groups go to the queue
	OpSize       Op = "size"       // Env, Size: a worker's group size has grown
	OpAdd        Op = "add"        // Added, Answered: groups were posted
	OpForm       Op = "form"       // Batches, Step: groups became batches
	OpSent       Op = "sent"       // Batch: it was sent and waits for its acknowledgement
	OpDone       Op = "done"       // Batch: it was delivered
	OpDissolve   Op = "dissolve"   // Batch: its groups go back to the head of the queue
	OpReset      Op = "reset"
	OpMove       Op = "move" // Entry, Place: a group's data lies elsewhere
	OpLost       Op = "lost" // Entry: a group's data can't be read any more
)

// Place says where the data of a group lies. The state only keeps it.
type Place struct {
	File   uint64 `json:"file,omitempty"`
	Offset int64  `json:"at"` // in an event: from the start of the data that came with it
	Length int64  `json:"len"`
	Check  uint32 `json:"check"` // CRC-32C of these bytes
}

// Entry is a group without its data.
type Entry struct {
	ID        uint64 `json:"id"`
	Sequences int64  `json:"n"`
	Tokens    int64  `json:"tok"`
	EnvID     *int64 `json:"env,omitempty"`
	Place     Place  `json:"place"`
	Size      int64  `json:"size"` // of the JSON, in bytes
	Sum       uint32 `json:"sum"`  // CRC-32 of the JSON
	gone      bool   // delivered or dropped, and kept only as the latest example
}

// Added says where a posted group went: to the queue, or to a worker's buffer,
// from which it may have released groups, itself among them.
type Added struct {
	Entry    *Entry   `json:"entry"`
	Buffer   *int64   `json:"buffer,omitempty"` // index of the worker; nil: the queue
	Released []uint64 `json:"released,omitempty"`
}

// Formed is a batch by the groups in it, in their order.
type Formed struct {
	ID     string   `json:"id"`
	Groups []uint64 `json:"groups"`
}

// Answer is what a post with an idempotency key was answered.
type Answer struct {
	Key   string `json:"key"`
	Print string `json:"print"` // tells the same post from another one
	List  bool   `json:"list,omitempty"`
	Posted
	GroupsProcessed int64 `json:"groups_processed,omitempty"`
	Buffered        int64 `json:"buffered,omitempty"`
}

// Worker is a registered worker.
type Worker struct {
	EnvRegistration
	Name         string   `json:"name"` // with its number
	Disconnected bool     `json:"disconnected,omitempty"`
	Buffer       []*Entry `json:"buffer,omitempty"`
}
