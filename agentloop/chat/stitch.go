package chat

import "io"

// AppendMessages writes the messages as a JSON array to dst from their stored encodings.
func AppendMessages(dst []byte, messages []Message) []byte {
	dst = append(dst, '[')
	for i, m := range messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m.raw...)
	}
	return append(dst, ']')
}

// Body is a request body made of stored encodings: prefix, the messages as a
// JSON array, suffix. Nothing is copied or encoded again, so what a turn costs
// does not grow with the conversation but for the bytes written.
type Body struct {
	prefix, suffix []byte
	messages       []Message
	size           int64
}

// NewBody stitches a body. The slices are shared and must not change while the
// body is read; appending to the slice messages was cut from is fine.
func NewBody(prefix []byte, messages []Message, suffix []byte) *Body {
	size := int64(len(prefix) + len(suffix) + 2)
	for i, m := range messages {
		if i > 0 {
			size++
		}
		size += int64(len(m.raw))
	}
	return &Body{prefix: prefix, suffix: suffix, messages: messages, size: size}
}

// Size returns the length of the body in bytes.
func (b *Body) Size() int64 { return b.size }

// Reader returns a new reader over the whole body; several may be read at once.
func (b *Body) Reader() io.ReadCloser { return &bodyReader{body: b} }

type bodyReader struct {
	body   *Body
	part   int // index into the virtual list of parts
	offset int
}

var (
	openList  = []byte{'['}
	closeList = []byte{']'}
	comma     = []byte{','}
)

// piece returns part i of: prefix "[" m0 "," m1 … "]" suffix, or nil at the end.
func (b *Body) piece(i int) []byte {
	n := len(b.messages)
	inside := 2*n - 1 // messages and the commas between them
	if n == 0 {
		inside = 0
	}
	switch {
	case i == 0:
		return b.prefix
	case i == 1:
		return openList
	case i < 2+inside:
		if (i-2)%2 == 1 {
			return comma
		}
		return b.messages[(i-2)/2].raw
	case i == 2+inside:
		return closeList
	case i == 3+inside:
		return b.suffix
	}
	return nil
}

func (b *Body) pieces() int {
	n := len(b.messages)
	if n == 0 {
		return 4
	}
	return 2*n + 3
}

func (r *bodyReader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && r.part < r.body.pieces() {
		piece := r.body.piece(r.part)
		copied := copy(p[n:], piece[r.offset:])
		n += copied
		r.offset += copied
		if r.offset == len(piece) {
			r.part++
			r.offset = 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *bodyReader) Close() error { return nil }
