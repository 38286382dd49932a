package tracking

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of the messages a .wandb file holds, after wandb_internal.proto of
// github.com/wandb/wandb at b6e29505 (2026-08-21). The format is internal to that
// project; the numbers used here have not changed since its version 0.10.
const (
	recordNum     = 1
	recordHistory = 2
	recordSummary = 3
	recordFiles   = 6
	recordRun     = 17
	recordExit    = 18
	recordFinal   = 20
	recordHeader  = 21
	recordFooter  = 22

	headerVersion   = 1
	versionProducer = 1

	runID           = 1
	runProject      = 3
	runConfig       = 4
	runGroup        = 6
	runJobType      = 7
	runDisplayName  = 8
	runHost         = 13
	runStartingStep = 14
	runStartTime    = 17
	runResumed      = 18

	configUpdate  = 1
	summaryUpdate = 1
	historyItem   = 1
	historyStep   = 2
	stepNum       = 1

	itemNestedKey = 2
	itemValue     = 16

	filesFile = 1
	filePath  = 1 // its policy, field 2, is left at 0: upload now

	exitRuntime = 2

	timeSeconds = 1
	timeNanos   = 2
)

// item is a key with its value as JSON, of a history, a summary or a configuration.
type item struct {
	key   string
	value []byte
}

func appendText(dst []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), text)
}

func appendInt(dst []byte, field protowire.Number, n int64) []byte {
	if n == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), uint64(n))
}

func appendMessage(dst []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), message)
}

// appendItems appends items to a message that repeats them under a field. The key is
// the nested key of one step, since a slash in it separates nothing.
func appendItems(dst []byte, field protowire.Number, items []item) []byte {
	for _, it := range items {
		message := appendText(nil, itemNestedKey, it.key)
		message = protowire.AppendBytes(protowire.AppendTag(message, itemValue, protowire.BytesType), it.value)
		dst = appendMessage(dst, field, message)
	}
	return dst
}

// wandbRecord encodes a record: its number and its one payload.
func wandbRecord(num int64, field protowire.Number, payload []byte) []byte {
	return appendMessage(appendInt(nil, recordNum, num), field, payload)
}

func headerPayload(producer string) []byte {
	return appendMessage(nil, headerVersion, appendText(nil, versionProducer, producer))
}

func historyPayload(step int, items []item) []byte {
	payload := appendItems(nil, historyItem, items)
	return appendMessage(payload, historyStep, appendInt(nil, stepNum, int64(step)))
}

func summaryPayload(items []item) []byte { return appendItems(nil, summaryUpdate, items) }

func filesPayload(paths []string) []byte {
	var payload []byte
	for _, p := range paths {
		payload = appendMessage(payload, filesFile, appendText(nil, filePath, p))
	}
	return payload
}

func exitPayload(runtime time.Duration) []byte {
	return appendInt(nil, exitRuntime, int64(runtime.Seconds()))
}

func timestamp(t time.Time) []byte {
	return appendInt(appendInt(nil, timeSeconds, t.Unix()), timeNanos, int64(t.Nanosecond()))
}

func (c *WandbConfig) runPayload(id string, started time.Time, firstStep int, resumed bool, settings []item) []byte {
	payload := appendText(nil, runID, id)
	payload = appendText(payload, runProject, c.Project)
	payload = appendMessage(payload, runConfig, appendItems(nil, configUpdate, settings))
	payload = appendText(payload, runGroup, c.Group)
	payload = appendText(payload, runJobType, c.JobType)
	payload = appendText(payload, runDisplayName, c.Name)
	payload = appendText(payload, runHost, c.Host)
	payload = appendInt(payload, runStartingStep, int64(firstStep))
	payload = appendMessage(payload, runStartTime, timestamp(started))
	if resumed {
		payload = appendInt(payload, runResumed, 1)
	}
	return payload
}
