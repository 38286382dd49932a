package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env/atropos"
)

// served is a server on a listener of its own, as the command runs it.
type served struct {
	*fixture
	address string
}

func serveHostile(t *testing.T, config Config) *served {
	t.Helper()
	f := open(t, config)
	listeners, err := Listen(context.Background(), "127.0.0.1", 0)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.server.Serve(ctx, listeners, time.Second) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return &served{f, listeners[0].Addr().String()}
}

func (s *served) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.address)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	return conn
}

// trickle sends a text a byte at a time until the server hangs up or answers, which
// it returns; 0 when it hung up.
func (s *served) trickle(text string, pause time.Duration) (status int, body string) {
	s.t.Helper()
	conn := s.dial()
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range len(text) {
			if _, err := conn.Write([]byte{text[i]}); err != nil {
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
		}
		<-stop
	})
	defer writing.Wait()
	defer close(stop)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error()
	}
	content, _ := io.ReadAll(resp.Body) // the server may hang up while it is sent
	return resp.StatusCode, string(content)
}

// hasAllItsMemory waits until no request holds any.
func (s *served) hasAllItsMemory() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		m := s.server.memory
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.used() == 0
	}, time.Minute, time.Millisecond, "memory is given back")
}

// head begins a post that announces a length.
func head(length int, more string) string {
	return fmt.Sprintf("POST /scored_data HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n", length, more)
}

func TestSlowClientsAreGivenUpAndHoldNobodyUp(t *testing.T) {
	const stall = 2 * time.Second
	s := serveHostile(t, Config{Stall: stall})
	long := strings.Repeat(" ", 1<<20)
	for name, c := range map[string]struct {
		text  string
		pause time.Duration
		code  int
		want  string
	}{
		"a head that trickles":   {head(10, "X: "+long+"\r\n"), 5 * time.Millisecond, 0, ""},
		"a head that never ends": {"GET /status HTTP/1.1\r\nHost: x\r\n", 0, 0, ""},
		"a body that never ends": {head(1<<29, "") + `{"tokens":[[1`, 0, 408, "the body did not arrive"},
		"no body at all":         {head(1<<20, ""), 0, 408, "the body did not arrive"},
		"a body that trickles":   {head(1<<20, "") + long, 2 * time.Millisecond, 408, "bytes came in 2s"},
		"a packed body that trickles": {head(1<<20, "Content-Encoding: gzip\r\n") + "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + strings.Repeat("\x00\x00\x00\xff\xff", 1<<18),
			2 * time.Millisecond, 408, "the body did not arrive"},
		"no chunk of a body in chunks": {"POST /scored_data HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", 0, 408, "the body did not arrive"},
		"no end of what is refused":    {head(1<<30, "") + long, 2 * time.Millisecond, 413, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, body := s.trickle(c.text, c.pause)
			require.Equal(t, c.code, code, body)
			if c.code != 0 {
				require.Contains(t, body, c.want)
			}
			require.Equal(t, `{"status":"received"}`, s.post("/scored_data", group(1, "5", "")), "others are served meanwhile")
		})
	}
	t.Cleanup(func() { s.hasAllItsMemory() })
}

func TestClientsThatSendNothingHoldNoMemory(t *testing.T) {
	s := serveHostile(t, Config{MaxMemory: 4 << 20, Patience: -1, Stall: time.Minute})
	for range 10 {
		_, err := io.WriteString(s.dial(), head(10<<20, "")+`{"tokens":`)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return s.server.counters.received.Load() == 100 }, time.Minute, time.Millisecond, "all have sent what they send")
	require.Equal(t, `{"status":"received"}`, s.post("/scored_data", group(1, "5", "")))
}

func TestBombsAreRefusedWithinTheMemoryThereIs(t *testing.T) {
	s := serveHostile(t, Config{MaxBody: 1 << 20, MaxMemory: 8 << 20, Patience: time.Minute})
	bomb := zip(t, strings.Repeat(" ", 8<<20))
	require.Less(t, len(bomb), 20<<10)
	var sending sync.WaitGroup
	codes := make([]int, 16)
	for i := range codes {
		sending.Go(func() { codes[i] = s.do("POST", "/scored_data", bomb, "Content-Encoding", "gzip").code })
	}
	sending.Wait()
	for _, code := range codes {
		require.Equal(t, 413, code)
	}
	s.hasAllItsMemory()
	require.Equal(t, `{"current_step":0,"queue_size":0}`, s.get("/status"))
}

// Requests of any sizes never hold more than the budget, and always get on.
func TestBudget_BoundsWhatRequestsHold(t *testing.T) {
	const total, largest = 1000, 600
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := newBudget(total, largest)
		type request struct {
			taken, want int64
			reserved    bool
		}
		requests := make([]request, 8)
		for i := range requests {
			requests[i].want = 1 + random.Int64N(largest)
		}
		for left := len(requests); left > 0; {
			moved := false
			for i := range requests {
				r := &requests[i]
				if r.want == 0 {
					continue
				}
				if r.taken == r.want || r.reserved {
					b.give(map[bool]int64{false: r.taken}[r.reserved], r.reserved)
					*r, moved = request{}, true
					left--
					continue
				}
				more := 1 + random.Int64N(r.want-r.taken)
				ok, reserved, _ := b.take(more, r.taken)
				if ok {
					moved = true
					r.taken, r.reserved = r.taken+more, reserved
				}
				require.LessOrEqual(t, b.used(), int64(total))
			}
			require.True(t, moved, "all wait for each other")
		}
		require.Zero(t, b.used())
	}
}

func TestServer_GivesMemoryBackAfterBombs(t *testing.T) {
	held := func() int64 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapSys - stats.HeapReleased)
	}
	const size = 15 << 20
	bomb := zip(t, strings.Repeat(" ", size))
	s := serveHostile(t, Config{MaxBody: 16 << 20, MaxMemory: 64 << 20, Patience: time.Minute})
	debug.FreeOSMemory()
	before := held()
	var sending sync.WaitGroup
	for range 16 {
		sending.Go(func() { s.do("POST", "/scored_data", bomb, "Content-Encoding", "gzip") })
	}
	sending.Wait()
	require.Eventually(t, func() bool { return held() < before+size/2 }, 10*time.Second, 10*time.Millisecond,
		"%d MiB are held, and were %d before", held()>>20, before>>20)
}

func TestAPostThatBreaksOffIsNotTaken(t *testing.T) {
	s := serveHostile(t, Config{})
	s.post("/register", registration)
	body := group(1, "5", "")
	for _, more := range []string{"", "Content-Encoding: gzip\r\n"} {
		conn := s.dial()
		_, err := io.WriteString(conn, head(len(body), more)+body[:len(body)-1])
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	s.post("/scored_data", group(1, "6", ""))
	require.Equal(t, `{"current_step":0,"queue_size":1}`, s.get("/status"))
}

// bigBatch posts a batch that the buffers of a socket don't hold.
func (s *served) bigBatch() {
	s.post("/register", withBatchSize("8"))
	long := `,"messages":[[{"role":"user","content":"` + noise(1<<20) + `"}]]`
	for range 8 {
		s.post("/scored_data", group(1, "5", long))
	}
}

func TestATrainerThatHangsHoldsNobodyUp(t *testing.T) {
	s := serveHostile(t, Config{Stall: 2 * time.Second})
	s.bigBatch()
	hung := s.dial()
	require.NoError(t, hung.(*net.TCPConn).SetReadBuffer(4096))
	_, err := io.WriteString(hung, "GET /batch HTTP/1.1\r\nHost: x\r\nX-Ack-Batch: \r\n\r\n")
	require.NoError(t, err)
	first, err := bufio.NewReaderSize(hung, 512).ReadString('\n') // and no more
	require.NoError(t, err)
	require.Contains(t, first, "200 OK")

	require.Equal(t, `{"status":"received"}`, s.post("/scored_data", group(1, "6", "")))
	again := s.do("GET", "/batch", "", "X-Ack-Batch", "")
	require.Equal(t, "5 5 5 5 5 5 5 5", tags(again.body), "the trainer that asks again gets what the other does not read")
	require.Equal(t, `{"current_step":1,"queue_size":1}`, s.get("/status"), "it is one step")
	require.Equal(t, `{"batch":null}`, s.do("GET", "/batch", "", "X-Ack-Batch", again.header.Get("X-Batch-Id")).body)
	require.Eventually(t, func() bool { return strings.Contains(s.get("/metrics"), "hermes_api_interrupted_batches_total 1\n") },
		time.Minute, 5*time.Millisecond, "the one that hangs is given up")
	require.Equal(t, `{"batch":null}`, s.get("/batch"), "what was acknowledged does not come back")
}

func TestATrainerThatVanishesLeavesItsBatchToTheNext(t *testing.T) {
	now := time.Now()
	f := open(t, Config{clock: func() time.Time { return now }})
	f.post("/register", withBatchSize("2"))
	require.Equal(t, "null", gjson.Get(f.get("/overview"), "trainer_silent_seconds").Raw)
	for _, tag := range []string{"5", "6", "7", "8"} {
		f.post("/scored_data", group(1, tag, ""))
	}
	taken := f.do("GET", "/batch", "", "X-Ack-Batch", "")
	require.Equal(t, "5 6", tags(taken.body))

	now = now.Add(time.Hour)
	require.Equal(t, 3600.0, gjson.Get(f.get("/overview"), "trainer_silent_seconds").Float())
	require.Contains(t, f.get("/metrics"), "hermes_api_trainer_silent_seconds 3600\n")
	f.post("/register", withBatchSize("1"))
	again := f.do("GET", "/batch", "", "X-Ack-Batch", "")
	require.Equal(t, taken.body, again.body, "the next trainer gets it, whatever size it wants")
	require.Equal(t, taken.header.Get("X-Batch-Id"), again.header.Get("X-Batch-Id"))
	last := again.header.Get("X-Batch-Id")
	for _, want := range []string{"7", "8", ""} {
		next := f.do("GET", "/batch", "", "X-Ack-Batch", last)
		require.Equal(t, want, tags(next.body))
		last = next.header.Get("X-Batch-Id")
	}
}

func TestTwoTrainersAtOnceAreGivenEachGroupOnce(t *testing.T) {
	f := open(t, Config{})
	const batches = 40
	f.post("/register", withBatchSize("1"))
	for i := range batches {
		f.post("/scored_data", group(1, fmt.Sprint(i+1), ""))
	}
	var mu sync.Mutex
	seen := map[string]int{}
	var trainers sync.WaitGroup
	for range 3 {
		trainers.Go(func() {
			for {
				body := f.do("GET", "/batch", "").body
				if body == `{"batch":null}` {
					return
				}
				mu.Lock()
				seen[tags(body)]++
				mu.Unlock()
			}
		})
	}
	trainers.Wait()
	require.Len(t, seen, batches)
	for tag, times := range seen {
		require.Equal(t, 1, times, tag)
	}
	require.Contains(t, f.get("/status"), fmt.Sprintf(`"current_step":%d,`, batches))
}

func TestWorkersWithOddSettings(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		code int
	}{
		"group size 0":            {worker("0", ""), 200},
		"a negative group size":   {worker("-5", ""), 200},
		"a huge group size":       {worker("9223372036854775807", ""), 200},
		"a size beyond an int":    {worker("9223372036854775808", ""), 422},
		"no group size":           {`{"max_token_length":1,"desired_name":"x","weight":1}`, 422},
		"no name":                 {strings.Replace(worker("4", ""), `"toy"`, `null`, 1), 422},
		"an empty name":           {strings.Replace(worker("4", ""), `toy`, ``, 1), 200},
		"a weight that is NaN":    {strings.Replace(worker("4", ""), `1.0`, `NaN`, 1), 422},
		"a weight that is no one": {strings.Replace(worker("4", ""), `1.0`, `"heavy"`, 1), 422},
		"a share above one":       {worker("4", `,"min_batch_allocation":7`), 200},
		"a negative share":        {worker("4", `,"min_batch_allocation":-1`), 200},
		"a length below zero":     {strings.Replace(worker("4", ""), `2048`, `-1`, 1), 200},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, Config{Rules: atropos.Rules{AcceptImpossible: true}})
			f.post("/register", withBatchSize("4"))
			f.get("/batch")
			a := f.do("POST", "/register-env", c.body)
			require.Equal(t, c.code, a.code, a.body)
			if c.code != 200 {
				require.NotEmpty(t, gjson.Get(a.body, "detail.0.msg").String())
				return
			}
			f.get("/status-env?env_id=0")
			for range 4 {
				f.post("/scored_data", group(1, "5", `,"env_id":0`))
			}
			f.get("/status-env?env_id=0")
			require.Equal(t, "5 5 5 5", tags(f.get("/batch")), "what it posts is delivered")
		})
	}
}

func TestGroupsThatNothingFillsUpLeaveTheBuffer(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	config := Config{Dir: dir, clock: func() time.Time { return now }}
	f := open(t, config)
	f.post("/register", withBatchSize("6"))
	f.get("/batch")
	f.post("/register-env", worker("4", ""))
	f.post("/register-env", worker("4", ""))
	buffered := `{"status":"buffered","buffer_size":3}`
	require.Equal(t, buffered, f.post("/scored_data", group(3, "5", `,"env_id":0`)))
	require.Equal(t, buffered, f.post("/scored_data", group(3, "6", `,"env_id":1`)))
	require.Equal(t, `{"batch":null}`, f.get("/batch"))
	f.post("/disconnect-env", `{"env_id":0}`)
	require.Equal(t, `{"batch":null}`, f.get("/batch"))
	require.Equal(t, `{"current_step":0,"queue_size":1}`, f.get("/status"), "that of the worker which is gone waits for a batch")
	now = now.Add(2 * time.Minute)
	f.get("/status-env?env_id=1")
	require.Equal(t, `{"batch":null}`, f.get("/batch"), "the other was heard of just now")
	now = now.Add(2 * time.Minute)
	require.NoError(t, f.server.Close())
	f.web.Close()
	f = open(t, config)
	require.Equal(t, `{"batch":null}`, f.get("/batch"), "a server that just started has heard of nobody")
	now = now.Add(2 * time.Minute)
	require.Equal(t, "5 6", tags(f.get("/batch")))
	require.Equal(t, `{"status":"received"}`, f.post("/scored_data", group(3, "7", `,"env_id":0`)), "late groups of a worker that is gone don't wait")

	strict := open(t, Config{Rules: atropos.OriginalRules()})
	strict.post("/register", withBatchSize("3"))
	strict.get("/batch")
	strict.post("/register-env", worker("4", ""))
	strict.post("/scored_data", group(3, "5", `,"env_id":0`))
	strict.post("/disconnect-env", `{"env_id":0}`)
	require.Equal(t, `{"batch":null}`, strict.get("/batch"), "as the original")
}

func TestALargeGroupDoesNotMakeTheOthersWait(t *testing.T) {
	f := open(t, Config{})
	f.post("/register", withBatchSize("8"))
	f.get("/batch")
	f.post("/register-env", worker("2", ""))
	f.post("/scored_data", group(2, "5", `,"env_id":0`))
	f.post("/scored_data", group(3, "5", `,"env_id":0`))
	require.Contains(t, f.get("/status-env?env_id=0"), `"queue_size":1,"unallocated_fraction":1.0,"self_queue_size":1,"max_group_size":3,`, "in groups of three")
	require.Equal(t, `{"status":"received"}`, f.post("/scored_data", group(2, "6", `,"env_id":0`)))
}

// The clock of the test jumps as one that somebody sets; that of the server never
// does, which is why the jumps can only be made here.
func TestJumpsOfTheClockLoseNothing(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := begun
	f := open(t, Config{clock: func() time.Time { return now }})
	f.post("/register", withBatchSize("2"))
	f.get("/batch")
	f.post("/register-env", worker("1", `,"min_batch_allocation":0.5`))
	f.post("/register-env", worker("1", ""))
	for i, jump := range []time.Duration{0, -10 * 365 * 24 * time.Hour, 20 * 365 * 24 * time.Hour, -time.Minute, 0} {
		now = begun.Add(jump)
		for range 2 {
			f.post("/scored_data", group(1, "5", `,"env_id":1`))
		}
		require.Contains(t, f.get("/status-env?env_id=0"), `"unallocated_fraction":0.5`)
		f.post("/scored_data", group(1, "6", `,"env_id":0`))
		f.post("/scored_data", group(1, "6", `,"env_id":0`))
		for range 2 {
			require.ElementsMatch(t, []string{"5", "6"}, strings.Fields(tags(f.get("/batch"))), "jump %d", i)
		}
		var o atropos.Overview
		require.NoError(t, json.Unmarshal([]byte(f.get("/overview")), &o))
		require.GreaterOrEqual(t, o.Rates.GroupsPerSecond, 0.0)
		require.True(t, o.Workers[0].Alive)
		require.Contains(t, f.get("/metrics"), "hermes_api_healthy 1\n")
	}
	require.Contains(t, f.get("/status"), `"current_step":10,"queue_size":0`)
}

func TestServer_RefusesImpossibleValues(t *testing.T) {
	env := func(old, replacement string) string { return strings.Replace(worker("4", ""), old, replacement, 1) }
	with := func(member, value string) string {
		return regexp.MustCompile(member+`-?[0-9]+`).ReplaceAllString(registration, member+value)
	}
	for name, c := range map[string]struct{ path, body, problem string }{
		"batch size 0":          {"/register", withBatchSize("0"), `{"type":"greater_than","loc":["body","batch_size"],"msg":"Input should be greater than 0","input":{}}`},
		"a negative batch size": {"/register", withBatchSize("-1"), `"loc":["body","batch_size"]`},
		"group size 0":          {"/register-env", env(`:4`, `:0`), `"loc":["body","group_size"]`},
		"a negative group size": {"/register-env", env(`:4`, `:-4`), `"loc":["body","group_size"]`},
		"a share above 1":       {"/register-env", worker("4", `,"min_batch_allocation":1.5`), `{"type":"less_than_equal","loc":["body","min_batch_allocation"],"msg":"Input should be less than or equal to 1","input":{}}`},
		"a negative share":      {"/register-env", worker("4", `,"min_batch_allocation":-0.5`), `"loc":["body","min_batch_allocation"]`},
		"a limit below -1":      {"/register", with(`"max_token_len":`, "-5"), `{"type":"greater_than_equal","loc":["body","max_token_len"],"msg":"Input should be greater than or equal to -1","input":{}}`},
		"a negative step":       {"/register", with(`"starting_step":`, "-1"), `"loc":["body","starting_step"],"msg":"Input should be greater than or equal to 0"`},
		"steps below -1":        {"/register", with(`"num_steps":`, "-2"), `"loc":["body","num_steps"],"msg":"Input should be greater than or equal to -1"`},
		"a negative length":     {"/register-env", env(`"max_token_length":`, `"max_token_length":-`), `"loc":["body","max_token_length"],"msg":"Input should be greater than 0"`},
		"a negative token":      {"/scored_data", `{"tokens":[[1],[2,-3]],"masks":[[1],[2,3]],"scores":[1,1]}`, `{"type":"greater_than_equal","loc":["body","tokens",1,1],"msg":"A token id should be greater than or equal to 0","input":{}}`},
		"a huge token":          {"/scored_data", `{"tokens":[[2147483648]],"masks":[[1]],"scores":[1]}`, `"loc":["body","tokens",0,0],"msg":"A token id should be less than or equal to 2147483647"`},
		"beyond 64 bits":        {"/scored_data", `{"tokens":[[99999999999999999999]],"masks":[[1]],"scores":[1]}`, `"loc":["body","tokens",0,0]`},
		"as text":               {"/scored_data", `{"tokens":[[0,"-7"]],"masks":[[-100,1]],"scores":[1]}`, `"loc":["body","tokens",0,1]`},
		"with an exponent":      {"/scored_data", `{"tokens":[[1e12]],"masks":[[1]],"scores":[1]}`, `"loc":["body","tokens",0,0]`},
		"a negative mask":       {"/scored_data", `{"tokens":[[1]],"masks":[[-1]],"scores":[1]}`, `"loc":["body","masks",0,0],"msg":"A mask should be a token id, or -100"`},
		"a distilled token":     {"/scored_data_list", `[{"tokens":[[1]],"masks":[[1]],"scores":[1],"distill_token_ids":[[[4,-5]]]}]`, `"loc":["body",0,"distill_token_ids",0,0,1]`},
		"a field twice":         {"/scored_data", `{"tokens":[[1]],"masks":[[1]],"scores":[1],"scores":[2]}`, `{"type":"duplicate_key","loc":["body","scores"],"msg":"The key \"scores\" is given twice, the second time at byte 43","input":{}}`},
		"escaped differently":   {"/scored_data", `{"tok\u0065ns":[[1]],"masks":[[1]],"scores":[1],"tokens":[[2]]}`, `"loc":["body","tokens"]`},
		"in a list of groups":   {"/scored_data_list", `[{"tokens":[[1]],"masks":[[1]],"scores":[1],"masks":[[1]]}]`, `"loc":["body",0,"masks"]`},
		"inside a field":        {"/scored_data", `{"tokens":[[1]],"masks":[[1]],"scores":[1],"messages":[[{"role":"a","content":"b","role":"c"}]]}`, `"loc":["body","messages"],"msg":"The key \"role\" is given twice`},
		"in a registration":     {"/register", strings.Replace(registration, `"num_steps":100`, `"num_steps":100,"batch_size":2`, 1), `"type":"duplicate_key","loc":["body","batch_size"]`},
		"among many keys":       {"/disconnect-env", `{"env_id":0,"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1,"r":1,"d":2}`, `"loc":["body","d"]`},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, Config{})
			f.post("/register", withBatchSize("4"))
			f.get("/batch")
			a := f.do("POST", c.path, c.body)
			require.Equal(t, 422, a.code, a.body)
			require.Contains(t, a.body, c.problem)
			require.True(t, gjson.Valid(a.body))

			original := open(t, Config{Rules: atropos.OriginalRules()})
			require.Equal(t, 200, original.do("POST", c.path, c.body).code, "the original takes it")
		})
	}
}

func TestServer_TakesNoLimitAndNoNumberOfSteps(t *testing.T) {
	for _, limit := range []string{"0", "-1"} {
		f := open(t, Config{})
		body := regexp.MustCompile(`"(max_token_len|num_steps)":[0-9]+`).ReplaceAllString(registration, `"$1":`+limit)
		require.Equal(t, 200, f.do("POST", "/register", body).code)
	}
}
