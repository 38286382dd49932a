package trajectories

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
)

// indexFile is the name of the file that repeats what the index knows, so that a
// resume need not parse rollouts.jsonl again. It is derived, never trusted without
// the bytes it speaks of, and may be removed at any time.
const indexFile = "rollouts.index"

// indexHeader begins the file; with another number than its own a program starts it anew.
const indexHeader = "hermes-env rollouts index 4\n"

// castagnoli is the polynomial for which processors have an instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// span is a stretch of a file and the checksum of its bytes.
type span struct {
	length int64
	sum    uint32
}

func spanOf(content []byte) span {
	return span{int64(len(content)), crc32.Checksum(content, castagnoli)}
}

// indexFrame is what one commit wrote: so many bytes of rollouts.jsonl and of
// trajectories.jsonl, and what the index keeps of the rollouts in them. Frames follow
// each other as the bytes do, from the first on.
type indexFrame struct {
	rollouts, view span
	entries        []Entry // length is set, offset is not
}

// errFrame: the bytes are no frame. The last one of a killed process is torn.
var errFrame = errors.New("not a frame of the index")

// append adds the frame to dst: its size, its content, a checksum of its content.
func (f *indexFrame) append(dst []byte) []byte {
	content := make([]byte, 0, 32+200*len(f.entries))
	for _, s := range []span{f.rollouts, f.view} {
		content = binary.AppendUvarint(content, uint64(s.length))
		content = binary.LittleEndian.AppendUint32(content, s.sum)
	}
	content = binary.AppendUvarint(content, uint64(len(f.entries)))
	for i := range f.entries {
		content = f.entries[i].append(content)
	}
	dst = binary.AppendUvarint(dst, uint64(len(content)))
	dst = append(dst, content...)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(content, castagnoli))
}

// Bits of an entry that say which optional members follow, and what they are.
const (
	bitScore = 1 << iota
	bitPassed
	bitPassedTrue
	bitModelTurn
	bitPriced
	bitCost
	bitHeld
	bitTampering
	bitSandboxEnds
	bitTestLimits
)

func (e *Entry) append(dst []byte) []byte {
	flags := uint16(0)
	if e.Score != nil {
		flags |= bitScore
	}
	if e.Passed != nil {
		flags |= bitPassed
		if *e.Passed {
			flags |= bitPassedTrue
		}
	}
	if e.modelTurn {
		flags |= bitModelTurn
	}
	cost := [...]float64{e.Spend.USD, e.Spend.JudgeUSD, e.Spend.FailedTriesUSD}
	if e.Spend.Priced {
		flags |= bitPriced
	}
	if cost != [3]float64{} {
		flags |= bitCost
	}
	if e.Timings.Held != 0 {
		flags |= bitHeld
	}
	if e.Tampering != nil {
		flags |= bitTampering
	}
	if e.SandboxEnds != 0 {
		flags |= bitSandboxEnds
	}
	if e.TestLimits != 0 {
		flags |= bitTestLimits
	}
	dst = binary.LittleEndian.AppendUint16(dst, flags)
	for _, s := range []string{e.ID, e.ItemID, e.ItemDigest, string(e.Outcome)} {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	for _, n := range []int64{e.length, int64(e.Step), int64(e.Attempt), int64(e.Group), int64(e.TurnsUsed), e.Usage.PromptTokens, e.Usage.CompletionTokens,
		e.finished, int64(e.Spend.Rollouts), int64(e.Spend.Calls), int64(e.Spend.Unreported), e.Spend.PromptTokens, e.Spend.CachedTokens, e.Spend.CompletionTokens} {
		dst = binary.AppendVarint(dst, n)
	}
	t := &e.Timings
	for _, f := range []float64{t.Total, t.Model, t.Tools, t.Sandbox, t.Verify, t.Harness} {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
	}
	if flags&bitHeld != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(t.Held))
	}
	if flags&bitCost != 0 {
		for _, usd := range cost {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(usd))
		}
	}
	if flags&bitSandboxEnds != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.SandboxEnds))
	}
	if e.Score != nil {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(*e.Score))
	}
	if e.Tampering != nil {
		dst = e.Tampering.append(dst)
	}
	if e.TestLimits != 0 {
		dst = append(dst, byte(e.TestLimits))
	}
	return dst
}

func (k *TamperingKinds) append(dst []byte) []byte {
	acted := byte(0)
	if k.Acted {
		acted = 1
	}
	dst = append(dst, acted)
	for _, kinds := range [][]string{k.Active, k.Noted} {
		dst = binary.AppendUvarint(dst, uint64(len(kinds)))
		for _, kind := range kinds {
			dst = binary.AppendUvarint(dst, uint64(len(kind)))
			dst = append(dst, kind...)
		}
	}
	return dst
}

// frameReader reads frames off the content of an index file.
type frameReader struct {
	rest  []byte
	texts map[string]string // those that many entries share, each kept once
	bad   bool
}

// next returns the next frame. The error is errFrame at the first that is not whole.
func (r *frameReader) next() (indexFrame, error) {
	outer := frameReader{rest: r.rest}
	content := outer.bytes(outer.uvarint())
	sum := outer.bytes(4)
	if outer.bad || binary.LittleEndian.Uint32(sum) != crc32.Checksum(content, castagnoli) {
		return indexFrame{}, errFrame
	}
	f, err := parseFrame(content, r.texts)
	if err == nil {
		r.rest = outer.rest
	}
	return f, err
}

// parseFrame reads the content of a frame, whose checksum is right.
func parseFrame(content []byte, texts map[string]string) (indexFrame, error) {
	inner := frameReader{rest: content, texts: texts}
	f := indexFrame{rollouts: inner.span(), view: inner.span()}
	n := inner.uvarint()
	if inner.bad || n > uint64(len(content)) { // each entry has several bytes
		return indexFrame{}, errFrame
	}
	f.entries = make([]Entry, n)
	left := f.rollouts.length
	for i := range f.entries {
		inner.entry(&f.entries[i])
		length := f.entries[i].length
		if inner.bad || length < 0 || length >= left {
			return indexFrame{}, errFrame
		}
		left -= length + 1
	}
	if left != 0 || len(inner.rest) != 0 {
		return indexFrame{}, errFrame
	}
	return f, nil
}

func (r *frameReader) entry(e *Entry) {
	raw := r.bytes(2)
	if r.bad {
		return
	}
	flags := binary.LittleEndian.Uint16(raw)
	e.modelTurn = flags&bitModelTurn != 0
	e.ID = string(r.bytes(r.uvarint()))
	e.ItemID, e.ItemDigest, e.Outcome = r.shared(), r.shared(), Outcome(r.shared())
	e.length = r.varint()
	e.Step, e.Attempt, e.Group, e.TurnsUsed = int(r.varint()), int(r.varint()), int(r.varint()), int(r.varint())
	e.Usage = EntryUsage{r.varint(), r.varint()}
	e.finished = r.varint()
	e.Spend.Rollouts, e.Spend.Calls, e.Spend.Unreported = int(r.varint()), int(r.varint()), int(r.varint())
	e.Spend.PromptTokens, e.Spend.CachedTokens, e.Spend.CompletionTokens = r.varint(), r.varint(), r.varint()
	e.Timings = EntryTimings{Total: r.float(), Model: r.float(), Tools: r.float(), Sandbox: r.float(), Verify: r.float(), Harness: r.float()}
	if flags&bitHeld != 0 {
		e.Timings.Held = r.float()
	}
	e.Spend.Priced = flags&bitPriced != 0
	if flags&bitCost != 0 {
		e.Spend.USD, e.Spend.JudgeUSD, e.Spend.FailedTriesUSD = r.float(), r.float(), r.float()
	}
	if flags&bitSandboxEnds != 0 {
		e.SandboxEnds = int(r.uvarint())
	}
	if flags&bitScore != 0 {
		score := r.float()
		e.Score = &score
	}
	if flags&bitPassed != 0 {
		passed := flags&bitPassedTrue != 0
		e.Passed = &passed
	}
	if flags&bitTampering != 0 {
		e.Tampering = r.tampering()
	}
	if flags&bitTestLimits != 0 {
		if b := r.bytes(1); !r.bad {
			e.TestLimits = TestLimits(b[0])
			r.bad = e.TestLimits == 0 || e.TestLimits >= maxTestLimits
		}
	}
}

func (r *frameReader) tampering() *TamperingKinds {
	acted := r.bytes(1)
	if r.bad {
		return nil
	}
	k := &TamperingKinds{Acted: acted[0] != 0}
	for _, kinds := range []*[]string{&k.Active, &k.Noted} {
		n := r.uvarint()
		if n > MaxTampering {
			r.bad = true
		}
		for i := uint64(0); i < n && !r.bad; i++ {
			*kinds = append(*kinds, r.shared())
		}
	}
	return k
}

func (r *frameReader) span() span {
	length := r.uvarint()
	sum := r.bytes(4)
	if r.bad || length > math.MaxInt64/2 {
		r.bad = true
		return span{}
	}
	return span{int64(length), binary.LittleEndian.Uint32(sum)}
}

// maxShared is how many texts are kept for those to come.
const maxShared = 1024

// shared reads a text that is likely to come again.
func (r *frameReader) shared() string {
	b := r.bytes(r.uvarint())
	if s, ok := r.texts[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(r.texts) >= maxShared {
		clear(r.texts)
	}
	r.texts[s] = s
	return s
}

func (r *frameReader) float() float64 {
	b := r.bytes(8)
	if r.bad {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

func (r *frameReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	return int64(r.took(uint64(v), n))
}

func (r *frameReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	return r.took(v, n)
}

func (r *frameReader) took(v uint64, n int) uint64 {
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *frameReader) bytes(n uint64) []byte {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}
