package atropos

import "encoding/json"

// Headers that this server understands in addition to the original protocol.
const (
	// HeaderBatchID names the batch in a reply to GET /batch. A batch that is sent
	// once more has the name it had.
	HeaderBatchID = "X-Batch-Id"
	// HeaderAckBatch on GET /batch names the last batch the trainer has safely, and
	// is empty when it has none. Sending it at all asks for deliveries that count only
	// when acknowledged.
	HeaderAckBatch = "X-Ack-Batch"
	// HeaderIdempotencyKey on a data post names the post: another one of that name
	// is answered like the first and changes nothing.
	HeaderIdempotencyKey = "Idempotency-Key"
)

// Registration is what a trainer sends to /register.
type Registration struct {
	WandbGroup             string `json:"wandb_group"`
	WandbProject           string `json:"wandb_project"`
	BatchSize              int64  `json:"batch_size"`    // sequences per batch
	MaxTokenLen            int64  `json:"max_token_len"` // tokens of the longest sequence; 0 and -1: no limit
	CheckpointDir          string `json:"checkpoint_dir"`
	SaveCheckpointInterval int64  `json:"save_checkpoint_interval"` // steps
	StartingStep           int64  `json:"starting_step"`
	NumSteps               int64  `json:"num_steps"` // -1: not said
}

// EnvRegistration is what a worker sends to /register-env.
type EnvRegistration struct {
	MaxTokenLength     int64    `json:"max_token_length"`
	DesiredName        string   `json:"desired_name"`
	Weight             float64  `json:"weight"`
	MinBatchAllocation *float64 `json:"min_batch_allocation"` // share of each batch; nil: none
	GroupSize          int64    `json:"group_size"`           // sequences
}

// Values of the status field of replies.
const (
	StatusSuccess  = "success"
	StatusFailure  = "failure"
	StatusWait     = "wait for trainer to start"
	StatusReceived = "received"
	StatusBuffered = "buffered"
	StatusError    = "error"
)

// EnvRegistered is the reply to /register-env. All but Status is zero while the
// status is StatusWait.
type EnvRegistered struct {
	Status             string `json:"status"`
	EnvID              int64  `json:"env_id"`
	WandbName          string `json:"wandb_name"`
	CheckpointDir      string `json:"checkpoint_dir"`
	StartingStep       int64  `json:"starting_step"` // the current step, whatever the name says
	CheckpointInterval int64  `json:"checkpoint_interval"`
	NumSteps           int64  `json:"num_steps"`
}

// WandbInfo is the reply to /wandb_info; both are nil before a trainer registered.
type WandbInfo struct {
	Group   *string `json:"group"`
	Project *string `json:"project"`
}

// Info is the reply to /info; both are -1 before a trainer registered.
type Info struct {
	BatchSize   int64 `json:"batch_size"`
	MaxTokenLen int64 `json:"max_token_len"`
}

// Status is the reply to /status.
type Status struct {
	CurrentStep int64 `json:"current_step"`
	QueueSize   int64 `json:"queue_size"` // groups
}

// EnvStatus is the reply to /status-env.
type EnvStatus struct {
	CurrentStep         int64   `json:"current_step"`
	QueueSize           int64   `json:"queue_size"`           // in groups of the asking worker's size
	UnallocatedFraction float64 `json:"unallocated_fraction"` // of a batch, that no minimum allocation claims
	SelfQueueSize       int64   `json:"self_queue_size"`      // of these, groups of the asking worker
	MaxGroupSize        int64   `json:"max_group_size"`       // sequences of the largest queued group
	EnvWeight           float64 `json:"env_weight"`
	// BatchStuck says that the trainer asked for a batch, that there are enough sequences
	// for one but no groups that make one, and that more of this worker's may. Not in the original; only sent when true.
	BatchStuck bool `json:"batch_stuck"`
	// TrainerWaiting says that the trainer asked for a batch and there were too few
	// sequences for one. Not in the original; only sent when true.
	TrainerWaiting bool `json:"trainer_waiting"`
}

// MarshalJSON writes fractions with a point, as clients of the original see them.
func (s EnvStatus) MarshalJSON() ([]byte, error) {
	var e encoder
	e.key("current_step")
	e.int(s.CurrentStep)
	e.key("queue_size")
	e.int(s.QueueSize)
	e.key("unallocated_fraction")
	e.float(s.UnallocatedFraction)
	e.key("self_queue_size")
	e.int(s.SelfQueueSize)
	e.key("max_group_size")
	e.int(s.MaxGroupSize)
	e.key("env_weight")
	e.float(s.EnvWeight)
	if s.BatchStuck {
		e.key("batch_stuck")
		e.raw(json.RawMessage("true"))
	}
	if s.TrainerWaiting {
		e.key("trainer_waiting")
		e.raw(json.RawMessage("true"))
	}
	return append(e.dst, '}'), e.err
}

// Posted is the reply to /scored_data.
type Posted struct {
	Status     string `json:"status"`
	BufferSize int64  `json:"buffer_size"` // sequences in the worker's buffer; only with StatusBuffered
}

// ListPosted is the reply to /scored_data_list.
type ListPosted struct {
	Status          string `json:"status"`
	GroupsProcessed int64  `json:"groups_processed"`
	Buffered        int64  `json:"buffered"`         // of these, answered StatusBuffered
	LastBufferSize  int64  `json:"last_buffer_size"` // sequences
}

// Disconnected is the reply to /disconnect-env.
type Disconnected struct {
	Status string `json:"status"`
	Error  string `json:"error"`
}

// Overview is the reply to /overview, an endpoint of this server only: what a
// person wants to know about it.
type Overview struct {
	Version       string        `json:"version"`
	Generation    string        `json:"generation"` // of the state: another one knows nothing of what this one took
	UptimeSeconds float64       `json:"uptime_seconds"`
	Registered    bool          `json:"registered"` // a trainer did
	Started       bool          `json:"started"`    // it asked for a batch
	Trainer       *Registration `json:"trainer"`
	// TrainerSilent is how many seconds ago a batch was asked for last; nil when none
	// was since the server started.
	TrainerSilent *float64         `json:"trainer_silent_seconds"`
	CurrentStep   int64            `json:"current_step"`
	Queue         Amount           `json:"queue"`
	Buffered      Amount           `json:"buffered"`    // waiting for groups that fill up their worker's group size
	Undelivered   Amount           `json:"undelivered"` // in batches that are formed and not delivered
	Unbatchable   Amount           `json:"unbatchable"` // in the queue, larger than a batch
	Stuck         string           `json:"stuck"`       // why so many sequences make no batch, or ""
	Batches       []BatchOverview  `json:"batches"`
	Workers       []WorkerOverview `json:"workers"`
	Rates         Rates            `json:"rates"`
	Totals        Totals           `json:"totals"`
	Limits        Limits           `json:"limits"`
	Problem       string           `json:"problem"` // why the server refuses data, or ""
}

// Amount counts groups.
type Amount struct {
	Groups    int64 `json:"groups"`
	Sequences int64 `json:"sequences"`
	Tokens    int64 `json:"tokens"`
	Bytes     int64 `json:"bytes"` // on disk
}

// BatchOverview is a batch that is formed and not delivered.
type BatchOverview struct {
	ID        string `json:"id"`
	State     string `json:"state"` // ready, sending or unacknowledged
	Sequences int64  `json:"sequences"`
}

// WorkerOverview is one registered worker.
type WorkerOverview struct {
	EnvID              int64    `json:"env_id"`
	Name               string   `json:"name"`
	Connected          bool     `json:"connected"` // not disconnected
	Alive              bool     `json:"alive"`     // connected and heard of lately
	SilentSeconds      float64  `json:"silent_seconds"`
	Weight             float64  `json:"weight"`
	MinBatchAllocation *float64 `json:"min_batch_allocation"`
	GroupSize          int64    `json:"group_size"`
	Queued             Amount   `json:"queued"`
	Buffered           Amount   `json:"buffered"`
	Accepted           int64    `json:"accepted"` // groups since the server started
}

// Rates are averages over the last minute, or since the start when that is shorter.
type Rates struct {
	GroupsPerSecond    float64 `json:"groups_per_second"`
	SequencesPerSecond float64 `json:"sequences_per_second"`
	TokensPerSecond    float64 `json:"tokens_per_second"`
	BatchesPerMinute   float64 `json:"batches_per_minute"`
}

// Totals count since the server started.
type Totals struct {
	Groups      int64 `json:"groups"`
	Sequences   int64 `json:"sequences"`
	Tokens      int64 `json:"tokens"`
	Duplicates  int64 `json:"duplicates"` // posts answered from their idempotency key
	Rejected    int64 `json:"rejected"`   // posts refused with 4xx
	Refused     int64 `json:"refused"`    // posts refused with 503
	Batches     int64 `json:"batches"`    // delivered
	Redelivered int64 `json:"redelivered"`
}

// Limits are the bounds above which posts are refused with 503.
type Limits struct {
	Bytes     int64 `json:"bytes"`
	Sequences int64 `json:"sequences"`
}

// BatchMessage is the reply to /batch with its groups as they were sent.
type BatchMessage struct {
	Batch   []json.RawMessage `json:"batch"` // nil: nothing is ready
	Status  string            `json:"status"`
	Message string            `json:"message"`
}
