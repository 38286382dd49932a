package stats

// Result describes a file or a run. Its JSON form is what `stats --json` prints.
type Result struct {
	Source   string         `json:"source"`
	Rows     int            `json:"rows"`                   // read, broken ones apart
	Skipped  int            `json:"rows_skipped,omitempty"` // by Config.Tampered; no other figure counts them
	Formats  []Count        `json:"formats"`                // rollout, sharegpt or messages
	Broken   int            `json:"broken_lines"`
	Problems []BrokenLine   `json:"broken,omitempty"` // the first of them
	Items    int            `json:"items"`            // distinct; 0 when rows don't name theirs
	Score    Score          `json:"score"`
	Outcomes []Count        `json:"outcomes"`
	Errors   []Count        `json:"errors"`
	Stops    []Count        `json:"stop_reasons"`
	Finishes []Count        `json:"finish_reasons"`
	Models   []Count        `json:"models"`
	Groups   []GroupedScore `json:"by_group"` // by category and difficulty, where rows say theirs

	Turns            Distribution `json:"turns"`
	ToolCalls        Distribution `json:"tool_calls"`
	PromptTokens     Distribution `json:"prompt_tokens"`
	CompletionTokens Distribution `json:"completion_tokens"`
	Characters       Distribution `json:"characters"` // of a whole conversation
	Seconds          Distribution `json:"seconds"`
	Time             Time         `json:"time"`

	Tampering  Tampering   `json:"tampering"`
	TestLimits []TestLimit `json:"test_limits,omitempty"`
	Tools      []Tool      `json:"tools"`
	Reasoning  Reasoning   `json:"reasoning"`
	Duplicates Duplicates  `json:"duplicates"`
	Cost       *Cost       `json:"cost"` // nil when nothing is known of it
	Throughput Throughput  `json:"throughput"`

	Slowest   []Notable `json:"slowest"`
	Expensive []Notable `json:"most_tokens"`

	// Of a run that makes groups, and of one whose settings changed; set by whoever
	// reads the run.
	DroppedGroups []Count  `json:"dropped_groups,omitempty"`          // by reason
	LeftOut       []Count  `json:"group_rollouts_left_out,omitempty"` // rollouts that groups were kept without, by reason
	Mixed         []string `json:"config_changes,omitempty"`          // in words
}

// Count is how often something occurred.
type Count struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// BrokenLine is a line that could not be read.
type BrokenLine struct {
	File    string `json:"file"`
	Line    int    `json:"line"` // from 1
	Problem string `json:"problem"`
}

// Score sums up the scores; rows without one are apart.
type Score struct {
	Distribution
	StdErr *float64 `json:"stderr"` // clustered by item; nil with fewer than two items
	Passed int      `json:"passed"`
	Judged int      `json:"judged"` // rows that say whether they passed
}

// GroupedScore is the score of the rows that share a category or a difficulty.
type GroupedScore struct {
	Kind   string   `json:"kind"` // "category" or "difficulty"
	Name   string   `json:"name"`
	Rows   int      `json:"rows"`
	Scored int      `json:"scored"`
	Passed int      `json:"passed"`
	Mean   *float64 `json:"mean"`
}

// Distribution describes numbers. All but the quantiles and the histogram is exact.
type Distribution struct {
	N         int     `json:"n"`
	Mean      float64 `json:"mean"`
	Min       float64 `json:"min"`
	P10       float64 `json:"p10"`
	P50       float64 `json:"p50"`
	P90       float64 `json:"p90"`
	P99       float64 `json:"p99"`
	Max       float64 `json:"max"`
	Sum       float64 `json:"sum"`
	Sampled   bool    `json:"sampled"` // quantiles and histogram rest on a sample
	Histogram []Bar   `json:"histogram,omitempty"`
}

// Bar is one bar of a histogram: values from From up to To, the last bar with To.
type Bar struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Count int     `json:"count"`
}

// Time adds up where the time of all rows went, in seconds.
type Time struct {
	Model   float64 `json:"model_seconds"`
	Tools   float64 `json:"tool_seconds"`
	Sandbox float64 `json:"sandbox_seconds"`
	Verify  float64 `json:"verify_seconds"`
	Harness float64 `json:"harness_seconds"`
}

// Tool is how one tool was used.
type Tool struct {
	Name    string `json:"name"`
	Calls   int    `json:"calls"`
	Success int    `json:"success"`
	Failure int    `json:"failure"`
	Rows    int    `json:"rows"` // that called it
	Unknown bool   `json:"unknown,omitempty"`
}

// Reasoning is how many assistant turns carry reasoning.
type Reasoning struct {
	Turns       int `json:"assistant_turns"`
	With        int `json:"turns_with_reasoning"`
	RowsWithout int `json:"rows_without_any"`
}

// Duplicates counts rows that repeat earlier ones.
type Duplicates struct {
	Conversations int `json:"conversations"` // the same from the first user message to the last
	Prompts       int `json:"prompts"`       // the same first user message under another item
}

// Cost is what the rows cost: as recorded, judges and failed tries included, or what the
// agent's tokens cost at prices that were given.
type Cost struct {
	TotalUSD   float64 `json:"total_usd"`
	MeanUSD    float64 `json:"mean_usd"` // per row that used tokens
	PerPassUSD float64 `json:"usd_per_passed,omitempty"`

	JudgeUSD       float64 `json:"judge_usd,omitempty"`        // of the total, for judging
	FailedTriesUSD float64 `json:"failed_tries_usd,omitempty"` // of the total, for tries that failed and were made again
	Unknown        int     `json:"rows_of_unknown_cost,omitempty"`
}

// Throughput is how many rows finished when.
type Throughput struct {
	Start      string       `json:"start,omitempty"` // RFC 3339
	End        string       `json:"end,omitempty"`
	BinSeconds int64        `json:"bin_seconds,omitempty"`
	Bins       []TimeBucket `json:"bins,omitempty"`
}

// TimeBucket is one span of time.
type TimeBucket struct {
	Start  string `json:"start"` // RFC 3339
	Rows   int    `json:"rows"`
	Tokens int64  `json:"completion_tokens"`
}

// Notable is a row worth looking at.
type Notable struct {
	Item    string   `json:"item_id"`
	Name    string   `json:"-"` // of the item, for people
	Attempt int      `json:"attempt"`
	ID      string   `json:"rollout_id"`
	Outcome string   `json:"outcome"`
	Score   *float64 `json:"score"`
	Seconds float64  `json:"seconds"`
	Tokens  int64    `json:"tokens"`
	Turns   int      `json:"turns"`
	USD     float64  `json:"usd,omitempty"`
}
