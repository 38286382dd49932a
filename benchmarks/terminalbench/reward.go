package terminalbench

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"sort"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Names of failures to score, as Harbor has them where it has one.
const (
	classNoReward     = "RewardFileNotFoundError"
	classEmptyReward  = "RewardFileEmptyError"
	classBadReward    = "VerifierOutputParseError"
	classTestsTimeout = "VerifierTimeoutError"
	classSetup        = "verifier_setup"   // the verifier could not install its tools
	classTampering    = "tampering"        // the agent changed what the verifier relies on
	classTampered     = "tampered"         // something acted on the tests while they ran
	classServicesLost = "services_lost"    // the tests could not run where the agent's services are
	classDiskFull     = "disk_full"        // no room for the tests
	classNoShell      = "no_interpreter"   // the tests' interpreter is gone
	classBadTask      = "invalid_task"     // the task itself can't be verified
	classNoFresh      = "no_fresh_sandbox" // the backend can't make one from another's files
)

// Limits of what is read from /logs/verifier.
const (
	maxRewardBytes = 64 << 10
	maxCTRFBytes   = 256 << 10
	maxOutputBytes = 256 << 20 // of everything in the directory
)

// rewardError says why there is no reward.
type rewardError struct {
	class   string
	message string
}

func (e *rewardError) Error() string { return e.message }

// reward is what a verifier wrote.
type reward struct {
	value float64
	parts map[string]float64 // of a reward.json with several numbers
	file  string             // the name of the file that counted
}

// verifierFiles are the files of /logs/verifier that matter.
type verifierFiles struct {
	rewardText, rewardJSON []byte
	hasText, hasJSON       bool
	problem                string // why a file of that name did not count
	ctrf                   []byte
}

// readVerifierFiles reads what the verifier left. Only regular files count: a link
// would let something else than the verifier's own output be read.
func readVerifierFiles(ctx context.Context, box sandbox.Sandbox) (verifierFiles, error) {
	var found verifierFiles
	stream, err := box.Download(ctx, verifierDir)
	if notThere(err) {
		return found, nil // also when a file is in the place of a directory above
	}
	if err != nil {
		return found, err
	}
	defer stream.Close()
	limited := &io.LimitedReader{R: stream, N: maxOutputBytes}
	archive := tar.NewReader(limited)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) && limited.N > 0 {
			return found, nil
		}
		if err != nil {
			if limited.N <= 0 {
				found.problem = fmt.Sprintf("%s holds more than %d MiB", verifierDir, maxOutputBytes>>20)
				return found, nil
			}
			return found, err
		}
		if err := found.take(h, archive); err != nil {
			return found, err
		}
	}
}

// take keeps one entry of the directory when it is one that matters.
func (f *verifierFiles) take(h *tar.Header, content io.Reader) error {
	dir, name := path.Split(strings.TrimSuffix(h.Name, "/"))
	if path.Clean(dir) != path.Base(verifierDir) {
		return nil
	}
	limit := int64(maxRewardBytes)
	switch name {
	case "reward.txt", "reward.json":
	case "ctrf.json":
		limit = maxCTRFBytes
	default:
		return nil
	}
	switch {
	case h.Typeflag != tar.TypeReg:
		f.problem = name + " is not a regular file"
		return nil
	case h.Size > limit:
		if name != "ctrf.json" {
			f.problem = fmt.Sprintf("%s has %d bytes", name, h.Size)
		}
		return nil
	}
	text, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	switch name {
	case "reward.txt":
		f.rewardText, f.hasText = text, true
	case "reward.json":
		f.rewardJSON, f.hasJSON = text, true
	case "ctrf.json":
		f.ctrf = text
	}
	return nil
}

// parse returns the reward. reward.json counts before reward.txt, as in newer
// versions of Harbor; an empty reward.json gives way to a reward.txt.
func (f *verifierFiles) parse() (reward, error) {
	if f.problem != "" {
		return reward{}, &rewardError{classBadReward, "the verifier left no reward that can be read: " + f.problem}
	}
	if f.hasJSON && (len(strings.TrimSpace(string(f.rewardJSON))) > 0 || !f.hasText) {
		return parseRewardJSON(f.rewardJSON)
	}
	if f.hasText {
		return parseRewardText(f.rewardText)
	}
	return reward{}, &rewardError{classNoReward, "the verifier wrote neither reward.txt nor reward.json into " + verifierDir}
}

func parseRewardText(text []byte) (reward, error) {
	trimmed := strings.TrimSpace(string(text))
	if trimmed == "" {
		return reward{}, &rewardError{classEmptyReward, "the verifier left reward.txt empty"}
	}
	// ParseFloat also takes digits with underscores and hexadecimal numbers, which no
	// other reader of these files does.
	value, err := strconv.ParseFloat(trimmed, 64)
	if err != nil || strings.ContainsAny(trimmed, "_xXpP") || math.IsNaN(value) || math.IsInf(value, 0) {
		return reward{}, &rewardError{classBadReward, fmt.Sprintf("reward.txt holds %s instead of a finite number", textutil.Quote(trimmed, 60))}
	}
	return reward{value: value, file: "reward.txt"}, nil
}

func parseRewardJSON(text []byte) (reward, error) {
	bad := func(why string) (reward, error) {
		return reward{}, &rewardError{classBadReward, "reward.json " + why}
	}
	if len(strings.TrimSpace(string(text))) == 0 {
		return reward{}, &rewardError{classEmptyReward, "the verifier left reward.json empty"}
	}
	if !gjson.ValidBytes(text) {
		return bad("is not JSON: " + textutil.Quote(string(text), 60))
	}
	parsed := gjson.ParseBytes(text)
	switch {
	case parsed.Type == gjson.Number:
		if math.IsInf(parsed.Num, 0) {
			return bad("holds a number that is too large")
		}
		return reward{value: parsed.Num, file: "reward.json"}, nil
	case !parsed.IsObject():
		return bad("holds neither a number nor an object of numbers: " + textutil.Quote(string(text), 60))
	}
	parts := map[string]float64{}
	wrong := ""
	parsed.ForEach(func(key, v gjson.Result) bool {
		if v.Type != gjson.Number || math.IsInf(v.Num, 0) {
			wrong = key.String()
			return false
		}
		parts[key.String()] = v.Num
		return true
	})
	if wrong != "" {
		return bad(fmt.Sprintf("has a member %s that is no finite number", textutil.Quote(wrong, 60)))
	}
	if len(parts) == 0 {
		return bad("is an object without members")
	}
	r := reward{parts: parts, file: "reward.json"}
	if value, ok := parts["reward"]; ok {
		r.value = value
		return r, nil
	}
	// Without a member of that name all count the same, in a fixed order so that the
	// digits are the same every time.
	names := make([]string, 0, len(parts))
	for name := range parts {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		r.value += parts[name]
	}
	r.value /= float64(len(parts))
	return r, nil
}
