package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env/atropos"
)

// fixture is a server under test.
type fixture struct {
	t      *testing.T
	server *Server
	web    *httptest.Server
}

func open(t *testing.T, config Config) *fixture {
	t.Helper()
	if config.Patience == 0 {
		config.Patience = -1
	}
	config.MinFree = -1
	s, err := New(config)
	require.NoError(t, err)
	f := &fixture{t, s, httptest.NewServer(s.Handler())}
	t.Cleanup(f.close)
	return f
}

func (f *fixture) close() {
	f.web.Close()
	require.NoError(f.t, f.server.Close())
}

// answer is a reply as it came.
type answer struct {
	code   int
	header http.Header
	body   string
}

func (f *fixture) do(method, path, body string, header ...string) answer {
	f.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, f.web.URL+path, strings.NewReader(body))
	require.NoError(f.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "-" {
			req.Header.Del(header[i])
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	require.NoError(f.t, err)
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	require.NoError(f.t, err)
	return answer{resp.StatusCode, resp.Header, string(content)}
}

func (f *fixture) get(path string) string {
	f.t.Helper()
	a := f.do("GET", path, "")
	require.Equal(f.t, 200, a.code, a.body)
	return a.body
}

func (f *fixture) post(path, body string, header ...string) string {
	f.t.Helper()
	a := f.do("POST", path, body, header...)
	require.Equal(f.t, 200, a.code, a.body)
	return a.body
}

const registration = `{"wandb_group":"g","wandb_project":"p","batch_size":16,"max_token_len":512,"checkpoint_dir":"/ckpt","save_checkpoint_interval":2,"starting_step":0,"num_steps":100}`

func withBatchSize(n string) string {
	return strings.Replace(registration, `"batch_size":16`, `"batch_size":`+n, 1)
}

// group is the body of a post with n sequences of two tokens; the tag is a token.
func group(n int, tag string, more string) string {
	row := "[" + tag + ",2]"
	rows := strings.TrimSuffix(strings.Repeat(row+",", n), ",")
	scores := strings.TrimSuffix(strings.Repeat("1,", n), ",")
	return `{"tokens":[` + rows + `],"masks":[` + rows + `],"scores":[` + scores + `]` + more + `}`
}

func worker(size string, more string) string {
	return `{"max_token_length":2048,"desired_name":"toy","weight":1.0,"group_size":` + size + more + `}`
}

// tags lists the tags of the groups in a reply to /batch.
func tags(body string) string {
	var list []string
	for _, g := range gjson.Get(body, "batch").Array() {
		list = append(list, g.Get("tokens.0.0").Raw)
	}
	return strings.Join(list, " ")
}

func TestTheWireMessagesOfASession(t *testing.T) {
	f := open(t, Config{})
	require.Equal(t, `{"message":"AtroposLib API"}`, f.get("/"))
	require.Equal(t, `{"group":null,"project":null}`, f.get("/wandb_info"))
	require.Equal(t, `{"batch_size":-1,"max_token_len":-1}`, f.get("/info"))
	require.Equal(t, `{"current_step":0,"queue_size":0}`, f.get("/status"))
	require.Equal(t, `{"status":"error","message":"Trainer not registered. Call /register first.","batch":[]}`, f.get("/batch"))
	require.Equal(t, emptyExample, f.get("/latest_example"))
	require.Equal(t, `{"status":"wait for trainer to start"}`, f.post("/register-env", worker("4", "")))
	require.Equal(t, `{"status":"failure","error":"list index out of range"}`, f.post("/disconnect-env", `{"env_id":0}`))

	var registered struct{ UUID json.Number }
	require.NoError(t, json.Unmarshal([]byte(f.post("/register", registration)), &registered))
	require.Regexp(t, `^[0-9]{30,39}$`, registered.UUID.String())
	require.Equal(t, `{"group":"g","project":"p"}`, f.get("/wandb_info"))
	require.Equal(t, `{"status":"wait for trainer to start"}`, f.post("/register-env", worker("4", "")), "the trainer has not asked for a batch")
	require.Equal(t, `{"batch":null}`, f.get("/batch"))
	require.Equal(t, `{"status":"success","env_id":0,"wandb_name":"toy_0","checkpoint_dir":"/ckpt","starting_step":0,"checkpoint_interval":2,"num_steps":100}`,
		f.post("/register-env", worker("2", `,"min_batch_allocation":null`)))
	require.Equal(t, `{"batch_size":16,"max_token_len":512}`, f.get("/info"))
	status := f.do("GET", "/status-env", `{"env_id":0}`)
	require.Equal(t, `{"current_step":0,"queue_size":0,"unallocated_fraction":1.0,"self_queue_size":0,"max_group_size":1,"env_weight":1.0}`, status.body)
	require.Equal(t, status.body, f.get("/status-env?env_id=0"))

	posted := `{"tokens":[[5,6,7,8],[5,6,9]],"masks":[[-100,-100,7,8],[-100,-100,9]],"scores":[1.0,-1.0],"inference_logprobs":[[1.0,1.0,-0.2,-0.1],[1.0,1.0,-1.3]],"messages":null,"overrides":[{},{"set_advantage_to_zero":true}],"group_overrides":null,"ref_logprobs":null,"distill_token_ids":null,"distill_logprobs":null,"env_id":0}`
	stored := `{"tokens":[[5,6,7,8],[5,6,9]],"masks":[[-100,-100,7,8],[-100,-100,9]],"scores":[1.0,-1.0],"advantages":null,"ref_logprobs":null,"messages":null,"generation_params":null,"inference_logprobs":[[1.0,1.0,-0.2,-0.1],[1.0,1.0,-1.3]],"overrides":[{},{"set_advantage_to_zero":true}],"group_overrides":null,"images":null,"env_id":0,"distill_token_ids":null,"distill_logprobs":null}`
	require.Equal(t, `{"status":"received"}`, f.post("/scored_data", posted))
	require.Equal(t, stored, f.get("/latest_example"))
	require.Equal(t, `{"current_step":0,"queue_size":1}`, f.get("/status"))
	require.Equal(t, `{"status":"buffered","buffer_size":1}`, f.post("/scored_data", group(1, "9", `,"env_id":0`)))
	require.Equal(t, `{"status":"received","groups_processed":2}`, f.post("/scored_data_list", "["+posted+","+posted+"]"))
	require.Equal(t, `{"status":"received","groups_processed":2,"buffered":1,"last_buffer_size":0}`,
		f.post("/scored_data_list", "["+posted+","+group(1, "9", `,"env_id":0`)+"]"))
	require.Equal(t, `{"batch":null}`, f.get("/batch"))
	for range 3 {
		f.post("/scored_data", posted)
	}
	require.Equal(t, "5 5 5 5 9 9 5 5 5", tags(f.get("/batch")), "the two single ones were released when they filled up the group size")
}

func TestABatchHoldsTheGroupsAsTheyWerePosted(t *testing.T) {
	f := open(t, Config{})
	f.post("/register", withBatchSize("3"))
	for _, tag := range []string{"7", "8", "9"} {
		f.post("/scored_data", group(1, tag, `,"unknown":1,"messages":[[{"role":"x","content":{"a":[1,"é"]},"reward":null}]],"images":["x"]`))
	}
	a := f.do("GET", "/batch", "")
	require.Equal(t, "7 8 9", tags(a.body))
	require.Equal(t, `[[{"role":"x","content":{"a":[1,"é"]},"reward":null}]]`, gjson.Get(a.body, "batch.0.messages").Raw)
	require.False(t, gjson.Get(a.body, "batch.0.unknown").Exists())
	require.NotEmpty(t, a.header.Get("X-Batch-Id"))
	require.Equal(t, `{"current_step":1,"queue_size":0}`, f.get("/status"))
	require.Equal(t, `{"batch":null}`, f.get("/batch"))
}

// worked is the example of the specification: B = 8, arrivals by size and tag.
func worked(f *fixture) {
	f.post("/register", withBatchSize("8"))
	for i, size := range []int{2, 4, 3, 2, 3, 2, 2, 4} {
		f.post("/scored_data", group(size, string(rune('1'+i)), ""))
	}
}

func TestTheOriginalRulesDeliverTheNewestBatchFirst(t *testing.T) {
	f := open(t, Config{Rules: atropos.OriginalRules()})
	worked(f)
	require.Equal(t, "6 7 8", tags(f.get("/batch")), "f g h")
	require.Equal(t, `{"current_step":2,"queue_size":2}`, f.get("/status"), "both batches are formed and count")
	require.Equal(t, "2 1 4", tags(f.get("/batch")), "b a d")
	require.Equal(t, `{"batch":null}`, f.get("/batch"))
	require.Equal(t, `{"current_step":2,"queue_size":2}`, f.get("/status"), "c and e fit nowhere")
}

func TestBatchesComeOldestFirstAndCountWhenDelivered(t *testing.T) {
	f := open(t, Config{})
	worked(f)
	require.Equal(t, "2 1 4", tags(f.get("/batch")))
	require.Equal(t, `{"current_step":1,"queue_size":5}`, f.get("/status"))
	require.Equal(t, "6 7 8", tags(f.get("/batch")))
	require.Equal(t, `{"batch":null}`, f.get("/batch"))
	f.post("/scored_data", group(2, "9", ""))
	require.Equal(t, "3 5 9", tags(f.get("/batch")), "3 + 3 + 2 add up, although no bundles of 3 do")
}

func TestResetIsACleanStart(t *testing.T) {
	for _, early := range []bool{false, true} {
		f := open(t, Config{})
		f.post("/register", registration)
		f.get("/batch")
		f.post("/register-env", worker("1", ""))
		f.post("/scored_data", group(1, "5", ""))
		example := f.get("/latest_example")
		a := f.do("GET", "/reset_data", "")
		require.Equal(t, "Reset successful", a.body)
		require.Equal(t, "text/plain; charset=utf-8", a.header.Get("Content-Type"))
		require.Equal(t, `{"batch_size":-1,"max_token_len":512}`, f.get("/info"))
		require.Equal(t, `{"current_step":0,"queue_size":0}`, f.get("/status"))
		require.Equal(t, `{"group":null,"project":null}`, f.get("/wandb_info"))
		require.Equal(t, example, f.get("/latest_example"))
		require.Contains(t, f.get("/batch"), "Trainer not registered")
		if early {
			f.post("/scored_data", group(1, "6", `,"env_id":0`))
			require.Equal(t, `{"current_step":0,"queue_size":0}`, f.get("/status"))
		}
		f.post("/register", withBatchSize("1"))
		require.Equal(t, `{"batch_size":1,"max_token_len":512}`, f.get("/info"), "data before the registration does not keep it out")
		require.Equal(t, early, strings.Contains(f.get("/batch"), `[6,2]`))
		require.Contains(t, f.post("/register-env", worker("1", "")), `"env_id":0,"wandb_name":"toy_0"`)
	}
}

func TestASecondRegistration(t *testing.T) {
	f := open(t, Config{})
	f.post("/register", withBatchSize("2"))
	f.post("/scored_data", group(1, "5", ""))
	f.post("/scored_data", group(1, "6", ""))
	f.get("/batch")
	f.post("/register", withBatchSize("2"))
	require.Equal(t, `{"current_step":1,"queue_size":0}`, f.get("/status"), "the same settings change nothing")
	f.post("/scored_data", group(1, "7", ""))
	f.post("/register", withBatchSize("1"))
	require.Equal(t, `{"current_step":1,"queue_size":1}`, f.get("/status"), "other settings keep the data")
	require.Equal(t, "7", tags(f.get("/batch")))

	refuses := open(t, Config{Rules: atropos.Rules{Reregister: atropos.ReregisterRefuse}})
	refuses.post("/register", registration)
	refuses.post("/register", registration)
	require.Equal(t, 409, refuses.do("POST", "/register", withBatchSize("1")).code)

	ignores := open(t, Config{Rules: atropos.OriginalRules()})
	ignores.post("/register", registration)
	ignores.post("/register", withBatchSize("1"))
	require.Contains(t, ignores.get("/info"), `"batch_size":16`)
}

func TestPathsMethodsAndRedirects(t *testing.T) {
	f := open(t, Config{})
	for _, c := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/nothing", 404, `{"detail":"Not Found"}`},
		{"GET", "/register", 405, `{"detail":"Method Not Allowed"}`},
		{"POST", "/batch", 405, `{"detail":"Method Not Allowed"}`},
		{"HEAD", "/status", 405, ""},
		{"OPTIONS", "/status", 405, `{"detail":"Method Not Allowed"}`},
		{"GET", "/status/", 307, ""},
		{"GET", "/nothing/", 404, `{"detail":"Not Found"}`},
		{"GET", "/status-env?env_id=x", 422, `{"detail":[{"type":"int_parsing","loc":["body","env_id"],"msg":"Input should be a valid integer, unable to parse string as an integer","input":{}}]}`},
		{"GET", "/status-env", 422, `{"detail":[{"type":"missing","loc":["body"],"msg":"Field required","input":{}}]}`},
		{"GET", "/status-env?env_id=3", 404, `{"detail":"no worker of this env_id is registered: register it with POST /register-env"}`},
	} {
		a := f.do(c.method, c.path, "")
		require.Equal(t, c.code, a.code, c.path)
		require.Equal(t, c.body, a.body, c.path)
	}
	require.Equal(t, "/status", f.do("GET", "/status/", "").header.Get("Location"))
}

func TestCORS(t *testing.T) {
	f := open(t, Config{})
	a := f.do("GET", "/status", "", "Origin", "http://x")
	require.Equal(t, "*", a.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "true", a.header.Get("Access-Control-Allow-Credentials"))
	a = f.do("OPTIONS", "/register", "", "Origin", "http://x", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "X-A, X-B")
	require.Equal(t, 200, a.code)
	require.Equal(t, "OK", a.body)
	require.Equal(t, "http://x", a.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "X-A, X-B", a.header.Get("Access-Control-Allow-Headers"))
	require.Equal(t, "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT", a.header.Get("Access-Control-Allow-Methods"))
	require.Equal(t, "600", a.header.Get("Access-Control-Max-Age"))
	require.Empty(t, open(t, Config{NoCORS: true}).do("GET", "/status", "", "Origin", "http://x").header.Get("Access-Control-Allow-Origin"))
}

func zip(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func zipZstd(t *testing.T, text string) string {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	defer encoder.Close()
	return string(encoder.EncodeAll([]byte(text), nil))
}

func TestPackedRequests(t *testing.T) {
	f := open(t, Config{MaxBody: 1 << 20})
	half := len(registration) / 2
	packed := zip(t, registration)
	for name, c := range map[string]struct {
		body, encoding string
		code           int
		want           string
	}{
		"gzip":                     {packed, "gzip", 200, `"uuid"`},
		"any encoding with gzip":   {packed, "X-GZIP, identity", 200, `"uuid"`},
		"members one after other":  {zip(t, registration[:half]) + zip(t, registration[half:]), "gzip", 200, `"uuid"`},
		"not gzip":                 {registration, "gzip", 400, "Invalid gzip payload"},
		"cut off":                  {packed[:len(packed)-9], "gzip", 400, "Invalid gzip payload"},
		"a wrong checksum":         {packed[:len(packed)-8] + "12345678", "gzip", 400, "Invalid gzip payload"},
		"an unknown encoding":      {packed, "deflate", 415, `{"detail":"the body has the content encoding \"deflate\": send it as gzip, zstd or without one"}`},
		"a list of encodings":      {packed, "gzip, zstd", 415, `the content encoding \"gzip, zstd\"`},
		"gzip twice":               {packed, "gzip, gzip", 415, "content encoding"},
		"zstd":                     {zipZstd(t, registration), "zstd", 200, `"uuid"`},
		"not zstd":                 {registration, "zstd", 400, "Invalid zstd payload"},
		"zstd that is cut off":     {zipZstd(t, registration)[:40], "zstd", 400, "Invalid zstd payload"},
		"a zstd bomb":              {zipZstd(t, strings.Repeat(" ", 2<<20)), "zstd", 413, "unpacked"},
		"no zstd":                  {"", "zstd", 422, `"loc":["body"]`},
		"nothing":                  {"", "gzip", 422, `"loc":["body"]`},
		"a bomb":                   {zip(t, strings.Repeat(" ", 2<<20)), "gzip", 413, "unpacked"},
		"a large body, not packed": {strings.Repeat(" ", 2<<20), "identity", 413, "unpacked"},
	} {
		a := f.do("POST", "/register", c.body, "Content-Encoding", c.encoding)
		require.Equal(t, c.code, a.code, name)
		require.Contains(t, a.body, c.want, name)
	}
	require.Equal(t, 422, f.do("POST", "/register", registration, "Content-Type", "text/plain").code)
	require.Equal(t, 200, f.do("POST", "/register", registration, "Content-Type", "-").code, "no content type counts as JSON")
}

func TestPackedReplies(t *testing.T) {
	f := open(t, Config{})
	f.post("/register", withBatchSize("2"))
	f.post("/scored_data", group(1, "5", ""))
	f.post("/scored_data", group(1, "6", ""))
	a := f.do("GET", "/batch", "", "Accept-Encoding", "gzip")
	require.Empty(t, a.header.Get("Content-Encoding"), "short replies are not packed")
	require.Equal(t, "5 6", tags(a.body))

	long := `,"messages":[[{"role":"user","content":"` + strings.Repeat("ab c", 2000) + `"}]]`
	for range 2 {
		f.post("/scored_data", group(1, "5", long), "X", "1")
		f.post("/scored_data", group(1, "6", long))
	}
	packed := f.do("GET", "/batch", "", "Accept-Encoding", "gzip;q=0")
	require.Equal(t, "gzip", packed.header.Get("Content-Encoding"))
	require.Equal(t, "Accept-Encoding", packed.header.Get("Vary"))
	z, err := gzip.NewReader(strings.NewReader(packed.body))
	require.NoError(t, err)
	z.Multistream(false)
	content, err := io.ReadAll(z)
	require.NoError(t, err, "one member with the right checksum and length")
	plain := f.do("GET", "/batch", "")
	require.Equal(t, plain.body, string(content))
	require.True(t, json.Valid(content))
	example := f.do("GET", "/latest_example", "", "Accept-Encoding", "gzip")
	require.Equal(t, "gzip", example.header.Get("Content-Encoding"))
}

func TestServer_KeepsGroupsInTheFormThatTheTrainerTakes(t *testing.T) {
	for encoding, text := range map[string]bool{"gzip": false, "identity": true} {
		dir := t.TempDir()
		f := open(t, Config{Dir: dir})
		registered := f.do("POST", "/register", withBatchSize("2"), "Accept-Encoding", encoding)
		require.Equal(t, 200, registered.code)
		long := `,"messages":[[{"role":"user","content":"` + strings.Repeat("ab c", 2000) + `"}]]`
		f.post("/scored_data", group(1, "5", long))
		f.post("/scored_data", group(1, "6", long))
		journal, err := os.ReadFile(filepath.Join(dir, "00000001.journal"))
		require.NoError(t, err)
		require.Equal(t, text, bytes.Contains(journal, []byte(strings.Repeat("ab c", 100))), encoding)
		example := f.do("GET", "/latest_example", "") // whatever the form
		require.Contains(t, example.body, "ab cab c")
		require.Equal(t, "5 6", tags(f.do("GET", "/batch", "").body))
	}
}

func TestWhatAWorkerSees(t *testing.T) {
	f := open(t, Config{Rules: atropos.Rules{WorkerTimeout: -1}})
	f.post("/register", registration)
	f.get("/batch")
	f.post("/register-env", worker("4", ""))
	f.post("/register-env", worker("2", `,"min_batch_allocation":0.25`))
	for range 3 {
		f.post("/scored_data", group(4, "5", `,"env_id":0`))
	}
	f.post("/scored_data", group(2, "5", `,"env_id":1`))
	require.Equal(t, `{"current_step":0,"queue_size":3,"unallocated_fraction":0.75,"self_queue_size":3,"max_group_size":4,"env_weight":0.5,"trainer_waiting":true}`,
		f.get("/status-env?env_id=0"), "the other's 2 count as 4, less the 4 that it may have at least")
	require.Equal(t, `{"current_step":0,"queue_size":7,"unallocated_fraction":0.75,"self_queue_size":1,"max_group_size":4,"env_weight":0.5,"trainer_waiting":true}`,
		f.get("/status-env?env_id=1"))
	require.Contains(t, f.do("GET", "/status-env", `{"env_id":-1}`).body, `"max_group_size":4`, "a negative id counts from the last")
	f.post("/disconnect-env", `{"env_id":1}`)
	require.Contains(t, f.get("/status-env?env_id=0"), `"queue_size":4,"unallocated_fraction":1.0,`)
}

func TestAWorkerWithoutWeightIsNoFailure(t *testing.T) {
	f := open(t, Config{})
	f.post("/register", registration)
	f.get("/batch")
	f.post("/register-env", strings.Replace(worker("4", ""), "1.0", "-1", 1))
	require.Contains(t, f.get("/status-env?env_id=0"), `"env_weight":1.0}`)
}

func TestTokens(t *testing.T) {
	f := open(t, Config{Token: "secret"})
	a := f.do("GET", "/status", "")
	require.Equal(t, 401, a.code)
	require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
	require.Equal(t, 401, f.do("GET", "/status", "", "Authorization", "Bearer wrong").code)
	require.Equal(t, 200, f.do("GET", "/status", "", "Authorization", "Bearer secret").code)
	require.Equal(t, 200, f.do("GET", "/status", "", "Authorization", "bearer  secret").code, "schemes have no case")
	require.Equal(t, 401, f.do("GET", "/status", "", "Authorization", "Basic secret").code)
	require.Equal(t, 401, f.do("GET", "/status", "", "Authorization", "secret").code)
	require.Equal(t, `{"status":"ok"}`, f.get("/healthz"))
}

func TestAPostIsCountedOnce(t *testing.T) {
	f := open(t, Config{})
	first := f.post("/scored_data", group(1, "5", ""), "Idempotency-Key", "a")
	require.Equal(t, first, f.post("/scored_data", group(1, "5", ""), "Idempotency-Key", "a"))
	a := f.do("POST", "/scored_data", group(1, "6", ""), "Idempotency-Key", "a")
	require.Equal(t, 422, a.code)
	require.Contains(t, a.body, "used for another post")
	f.post("/scored_data", group(1, "5", ""), "Idempotency-Key", "b")
	f.post("/register", registration)
	require.Equal(t, `{"current_step":0,"queue_size":2}`, f.get("/status"))
}

func TestATrainerThatAcknowledgesGetsABatchUntilItDoes(t *testing.T) {
	f := open(t, Config{})
	f.post("/register", withBatchSize("1"))
	f.post("/scored_data", group(1, "5", ""))
	f.post("/scored_data", group(1, "6", ""))
	f.post("/scored_data", group(1, "7", ""))
	first := f.do("GET", "/batch", "", "X-Ack-Batch", "")
	id := first.header.Get("X-Batch-Id")
	again := f.do("GET", "/batch", "", "X-Ack-Batch", "")
	require.Equal(t, first.body, again.body)
	require.Equal(t, id, again.header.Get("X-Batch-Id"))
	require.Equal(t, `"`+id+`"`, again.header.Get("ETag"))
	require.Contains(t, f.get("/status"), `"current_step":1,`, "it is one step however often it is sent")
	second := f.do("GET", "/batch", "", "If-None-Match", `"`+id+`"`)
	require.Equal(t, "6", tags(second.body))
	require.Equal(t, `{"status":"success"}`, f.post("/ack_batch", `{"batch_id":"`+second.header.Get("X-Batch-Id")+`"}`))
	require.Equal(t, `{"status":"success"}`, f.post("/ack_batch", `{"batch_id":"`+second.header.Get("X-Batch-Id")+`"}`), "once more is no failure")
	require.Contains(t, f.post("/ack_batch", `{"batch_id":"nonsense"}`), "failure")
	require.Equal(t, "7", tags(f.get("/batch")))
	require.Equal(t, `{"batch":null}`, f.get("/batch"))
}

func TestPostsAreRefusedWhenTooMuchWaits(t *testing.T) {
	f := open(t, Config{MaxSequences: 2})
	f.post("/scored_data", group(1, "5", ""))
	f.post("/scored_data", group(1, "6", ""), "Idempotency-Key", "k")
	a := f.do("POST", "/scored_data", group(1, "7", ""))
	require.Equal(t, 503, a.code)
	require.Equal(t, "5", a.header.Get("Retry-After"))
	require.Contains(t, a.body, "2 sequences wait for the trainer, and the limit is 2")
	f.post("/scored_data", group(1, "6", ""), "Idempotency-Key", "k")
	f.post("/register", withBatchSize("1"))
	f.get("/batch")
	require.Eventually(t, func() bool { return f.do("POST", "/scored_data", group(1, "7", "")).code == 200 },
		20*time.Second, time.Millisecond, "there is room when the server has noticed that all is written")
}

func TestAPostWaitsForRoom(t *testing.T) {
	f := open(t, Config{MaxSequences: 1, Patience: time.Minute})
	f.post("/register", withBatchSize("1"))
	f.post("/scored_data", group(1, "5", ""))
	done := make(chan int)
	go func() { done <- f.do("POST", "/scored_data", group(1, "6", "")).code }()
	require.Equal(t, "5", tags(f.get("/batch")))
	require.Equal(t, 200, <-done)
	require.Equal(t, "6", tags(f.get("/batch")))
}

func TestGroupsThatAreRefused(t *testing.T) {
	f := open(t, Config{})
	f.post("/register", strings.Replace(registration, "512", "3", 1))
	for name, c := range map[string]struct{ body, want string }{
		"an unequal mask":           {`{"tokens":[[1,2]],"masks":[[1]],"scores":[1]}`, `"loc":["body","masks",0],"msg":"The list has 1 elements and the sequence has 2 tokens: there must be one per token"`},
		"a missing mask":            {`{"tokens":[[1,2]],"masks":[],"scores":[1]}`, `"loc":["body","masks"]`},
		"too few scores":            {`{"tokens":[[1],[2]],"masks":[[1],[2]],"scores":[1]}`, `"loc":["body","scores"]`},
		"unequal logprobs":          {`{"tokens":[[1]],"masks":[[1]],"scores":[1],"inference_logprobs":[[1,2]]}`, `"loc":["body","inference_logprobs",0]`},
		"unequal distillation":      {`{"tokens":[[1]],"masks":[[1]],"scores":[1],"distill_token_ids":[[[1,2]]],"distill_logprobs":[[[1]]]}`, `"loc":["body","distill_logprobs"]`},
		"no sequences":              {`{"tokens":[],"masks":[],"scores":[]}`, `The group has no sequences`},
		"a long sequence":           {`{"tokens":[[1,2,3,4]],"masks":[[1,2,3,4]],"scores":[1]}`, `A sequence has 4 tokens, and the trainer takes at most 3`},
		"more than a batch":         {group(17, "1", ""), `The group has 17 sequences and a batch only 16`},
		"NaN":                       {`{"tokens":[[1]],"masks":[[1]],"scores":[NaN]}`, `"type":"finite_number","loc":["body","scores",0]`},
		"Infinity in a row":         {`{"tokens":[[1]],"masks":[[1]],"scores":[1],"advantages":[[-Infinity]]}`, `"loc":["body","advantages",0,0]`},
		"a number beyond a double":  {`{"tokens":[[1]],"masks":[[1]],"scores":[1e999]}`, `"type":"finite_number"`},
		"a flat list of advantages": {`{"tokens":[[1]],"masks":[[1]],"scores":[1],"advantages":[1]}`, `"type":"list_type","loc":["body","advantages",0]`},
		"missing fields":            {`{"tokens":[[1]]}`, `{"type":"missing","loc":["body","masks"],"msg":"Field required","input":{}},{"type":"missing","loc":["body","scores"],"msg":"Field required","input":{}}`},
		"a turn without content":    {`{"tokens":[[1]],"masks":[[1]],"scores":[1],"messages":[[{"role":"user"}]]}`, `"loc":["body","messages",0,0],"msg":"Value error, Message must have 'role' and 'content' fields"`},
		"turns that are strings":    {`{"tokens":[[1]],"masks":[[1]],"scores":[1],"messages":[["hi"]]}`, `"type":"dict_type","loc":["body","messages",0,0]`},
		"a null override":           {`{"tokens":[[1]],"masks":[[1]],"scores":[1],"overrides":[null]}`, `"loc":["body","overrides",0]`},
		"a fraction as a token":     {`{"tokens":[[8.5]],"masks":[[1]],"scores":[1]}`, `"type":"int_from_float","loc":["body","tokens",0,0]`},
		"null scores":               {`{"tokens":[[1]],"masks":[[1]],"scores":null}`, `"loc":["body","scores"]`},
		"broken JSON":               {`{"tokens":[[1]`, `{"detail":[{"type":"json_invalid","loc":["body",14],`},
		"a list":                    {`[]`, `"type":"model_attributes_type","loc":["body"]`},
		"a word":                    {`hello`, `"type":"json_invalid"`},
	} {
		a := f.do("POST", "/scored_data", c.body)
		require.Equal(t, 422, a.code, "%s: %s", name, a.body)
		require.Contains(t, a.body, c.want, name)
		require.True(t, json.Valid([]byte(a.body)), name)
	}
	a := f.do("POST", "/scored_data_list", "["+group(1, "5", "")+`,{"tokens":[[1]],"masks":[[1,2]],"scores":[1]}]`)
	require.Equal(t, 422, a.code)
	require.Contains(t, a.body, `"loc":["body",1,"masks",0]`)
	a = f.do("POST", "/scored_data_list", "["+group(1, "5", "")+`,{"tokens":[[1]]}]`)
	require.Contains(t, a.body, `"loc":["body",1,"masks"]`)
	require.Equal(t, `{"current_step":0,"queue_size":0}`, f.get("/status"), "one that is wrong keeps out all")
}

func TestValuesThatAreConverted(t *testing.T) {
	f := open(t, Config{Rules: atropos.Rules{AcceptImpossible: true}})
	for _, c := range []struct{ sent, field, want string }{
		{`"tokens":[[1.0,"1",true,1e2," 2 "]],"masks":[[1,2,3,4,5]],"scores":[1]`, "tokens", `[[1,1,1,100,2]]`},
		{`"tokens":[[123456789012345678901234567890]],"masks":[[-0]],"scores":["1.5"]`, "tokens", `[[123456789012345678901234567890]]`},
		{`"tokens":[[1]],"masks":[[-0]],"scores":["1.5"]`, "scores", `[1.5]`},
		{`"tokens":[[1]],"masks":[[1]],"scores":[ 1 ]`, "scores", `[1.0]`},
		{`"tokens":[[1]],"masks":[[1]],"scores":[true]`, "scores", `[1.0]`},
		{`"tokens":[[1]],"masks":[[1]],"scores":[-1e-05]`, "scores", `[-1e-05]`},
		{`"tokens":[ [ 1 ] ],"masks":[[1]],"scores":[1],"group_overrides":{"a": NaN, "b" : [ -Infinity ]}`, "group_overrides", `{"a":null,"b":[null]}`},
		{`"tokens":[[1]],"masks":[[1]],"scores":[1],"env_id":"7"`, "env_id", `7`},
		{`"tokens":[[1]],"masks":[[1]],"scores":[1],"advantages":[],"messages":[],"overrides":[],"ref_logprobs":[]`, "advantages", `[]`},
		{`"tokens":[[1]],"masks":[[1]],"scores":[2],"scores":[3]`, "scores", `[3.0]`},
		{`"tok\u0065ns":[[4]],"masks":[[1]],"scores":[2]`, "tokens", `[[4]]`},
	} {
		f.post("/scored_data", "{"+c.sent+"}")
		require.Equal(t, c.want, gjson.Get(f.get("/latest_example"), c.field).Raw, c.sent)
	}
}

func TestMetricsAndOverview(t *testing.T) {
	f := open(t, Config{Version: "v1"})
	f.post("/register", registration)
	f.get("/batch")
	f.post("/register-env", strings.Replace(worker("1", ""), "toy", `to\"y`, 1))
	f.post("/scored_data", group(1, "5", `,"env_id":0`))
	f.do("POST", "/scored_data", "{}")
	text := f.get("/metrics")
	for _, line := range []string{"hermes_api_accepted_groups_total 1\n", "hermes_api_rejected_posts_total 1\n",
		`hermes_api_held_sequences{place="queue"} 1` + "\n", `hermes_api_worker_alive{env_id="0",name="to\"y_0"} 1` + "\n", "hermes_api_healthy 1\n"} {
		require.Contains(t, text, line)
	}
	for line := range strings.Lines(text) {
		require.Regexp(t, `^(# (HELP|TYPE) hermes_api_[a-z_]+ .+|hermes_api_[a-z_]+(\{.+\})? [0-9.e+-]+)\n$`, line)
	}
	var o atropos.Overview
	require.NoError(t, json.Unmarshal([]byte(f.get("/overview")), &o))
	require.Equal(t, int64(1), o.Queue.Sequences)
	require.Equal(t, "v1", o.Version)
	require.True(t, o.Workers[0].Alive)
	require.Equal(t, int64(1), o.Workers[0].Accepted)
}
