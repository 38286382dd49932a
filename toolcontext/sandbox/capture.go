package sandbox

import "sync"

// Capture is an io.Writer that keeps the first 40 % and the last 60 % of a limit
// of what is written to it. Its memory stays proportional to the limit whatever
// is written. Its methods may be called from many goroutines at once.
type Capture struct {
	mu      sync.Mutex
	headCap int
	tailCap int
	head    []byte
	tail    []byte // a ring once len(tail) == tailCap
	next    int    // where the ring's oldest byte is
	total   int64
	closed  bool
}

// NewCapture returns a Capture that keeps at most limit bytes; a limit of 0 or
// less means DefaultMaxOutput.
func NewCapture(limit int) *Capture {
	if limit <= 0 {
		limit = DefaultMaxOutput
	}
	head := int(int64(limit) * 40 / 100)
	return &Capture{headCap: head, tailCap: limit - head}
}

// Write takes p. It never fails, and always takes all of p.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	if c.closed {
		return n, nil
	}
	c.total += int64(n)
	if free := c.headCap - len(c.head); free > 0 {
		k := min(free, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	c.keepTail(p)
	return n, nil
}

// keepTail puts p at the end of the ring, over the oldest bytes.
func (c *Capture) keepTail(p []byte) {
	if len(p) > c.tailCap {
		p = p[len(p)-c.tailCap:]
	}
	if free := c.tailCap - len(c.tail); free > 0 {
		k := min(free, len(p))
		c.tail = append(c.tail, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(c.tail[c.next:], p)
		c.next = (c.next + k) % c.tailCap
		p = p[k:]
	}
}

// Total returns how many bytes were written so far.
func (c *Capture) Total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// Output returns a copy of what is kept; more may be written afterwards.
func (c *Capture) Output() Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output()
}

// Close returns what is kept and gives the memory free. What is written later is
// dropped and not counted, so that a writer that outlives its reader costs nothing.
func (c *Capture) Close() Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.output()
	c.closed = true
	c.head, c.tail, c.next = nil, nil, 0
	return out
}

func (c *Capture) output() Output {
	out := Output{Total: c.total}
	if len(c.head) > 0 {
		out.Head = append([]byte(nil), c.head...)
	}
	if len(c.tail) > 0 {
		out.Tail = make([]byte, 0, len(c.tail))
		out.Tail = append(out.Tail, c.tail[c.next:]...)
		out.Tail = append(out.Tail, c.tail[:c.next]...)
	}
	return out
}
