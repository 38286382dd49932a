package parquetrows

import "fmt"

// Assembly puts the values of the leaf columns together again by their definition and repetition levels, as the Dremel paper
// describes it. Each function writes one instance of a node and takes exactly its values from the cursors.

// object writes the row.
func (r *Reader) object(root *node) {
	r.put('{')
	for i, child := range root.children {
		if i > 0 {
			r.put(',')
		}
		r.text(child.key)
		r.node(child)
	}
	r.put('}')
}

func (r *Reader) put(c byte) {
	if !r.long {
		r.out = append(r.out, c)
	}
}

func (r *Reader) text(s string) {
	if r.long {
		return
	}
	if int64(len(r.out)+len(s)) > r.max {
		r.long = true
		return
	}
	r.out = append(r.out, s...)
}

func (r *Reader) node(n *node) {
	switch {
	case r.err != nil:
	case n.kind == leafKind:
		r.leafNode(n)
	case n.optional && r.definition(n) < n.maxDef:
		r.pass(n)
		r.text("null")
	case n.kind == listKind:
		r.list(n)
	case n.kind == mapKind:
		r.mapping(n)
	default:
		r.object(n)
	}
}

func (r *Reader) leafNode(n *node) {
	c := &r.leaves[n.first]
	if !c.peek(r) {
		r.short(c)
		return
	}
	v := c.value()
	c.pos++
	switch {
	case v.DefinitionLevel() < n.maxDef || v.IsNull():
		r.text("null")
	case r.long:
	default:
		out, err := n.leaf.encode(r.out, v)
		r.out = out
		switch err := err.(type) {
		case nil:
		case *notFinite:
			if r.note == nil {
				r.note = err
			}
		default:
			if r.bad == nil {
				r.bad = fmt.Errorf("column %s: %w", n.leaf.path, err)
			}
		}
		if int64(len(r.out)) > r.max {
			r.long = true
		}
	}
}

// short reports a column that ends before its row group does.
func (r *Reader) short(c *leafCursor) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: the Parquet file is damaged: column %s has fewer values than the file has rows", ErrFormat, c.leaf.path)
	}
}

// definition is the definition level of the next value below n. A group without any leaf is always there.
func (r *Reader) definition(n *node) int {
	if n.first == n.last {
		return n.maxDef
	}
	c := &r.leaves[n.first]
	if !c.peek(r) {
		r.short(c)
		return 0
	}
	return c.value().DefinitionLevel()
}

// pass takes the one value that every leaf below an absent node has.
func (r *Reader) pass(n *node) {
	for i := n.first; i < n.last; i++ {
		c := &r.leaves[i]
		if !c.peek(r) {
			r.short(c)
			return
		}
		c.pos++
	}
}

// repeats tells whether another element of n follows. The leaves of n have to agree.
func (r *Reader) repeats(n *node) bool {
	if r.err != nil || n.first == n.last {
		return false
	}
	again := false
	for i := n.first; i < n.last; i++ {
		c := &r.leaves[i]
		here := c.peek(r) && c.value().RepetitionLevel() == n.repeatRep
		if i > n.first && here != again {
			if r.err == nil {
				r.err = fmt.Errorf("%w: the Parquet file is damaged: column %s repeats otherwise than its neighbours", ErrFormat, c.leaf.path)
			}
			return false
		}
		again = here
	}
	return again
}

func (r *Reader) list(n *node) {
	r.put('[')
	if r.definition(n) < n.repeatDef {
		r.pass(n)
		r.put(']')
		return
	}
	for first := true; first || r.repeats(n); first = false {
		if !first {
			r.put(',')
		}
		r.node(n.children[0])
	}
	r.put(']')
}

// mapping writes a map as an object; keys that aren't strings become the strings of their JSON.
func (r *Reader) mapping(n *node) {
	r.put('{')
	if r.definition(n) < n.repeatDef {
		r.pass(n)
		r.put('}')
		return
	}
	for first := true; first || r.repeats(n); first = false {
		if !first {
			r.put(',')
		}
		start := len(r.out)
		r.node(n.children[0])
		if key := r.out[min(start, len(r.out)):]; len(key) > 0 && key[0] != '"' && !r.long {
			r.out = AppendString(r.out[:start], []byte(string(key)))
		}
		r.put(':')
		if len(n.children) > 1 {
			r.node(n.children[1])
		} else {
			r.text("null")
		}
	}
	r.put('}')
}
