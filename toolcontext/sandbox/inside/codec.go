package inside

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// errMalformed is what a decoder says of bytes that no encoder wrote.
var errMalformed = fmt.Errorf("%w: malformed message", errProtocol)

// encoder writes values one after another. Strings are bytes: arguments and
// variables need not be text.
type encoder struct{ b []byte }

func (e *encoder) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)   { e.b = binary.AppendVarint(e.b, v) }

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) string(v string) {
	e.uint(uint64(len(v)))
	e.b = append(e.b, v...)
}

func (e *encoder) bytes(v []byte) {
	e.uint(uint64(len(v)))
	e.b = append(e.b, v...)
}

func (e *encoder) strings(v []string) {
	e.uint(uint64(len(v)))
	for _, s := range v {
		e.string(s)
	}
}

func (e *encoder) env(v map[string]string) {
	e.uint(uint64(len(v)))
	for _, name := range slices.Sorted(maps.Keys(v)) {
		e.string(name)
		e.string(v[name])
	}
}

// decoder reads what an encoder wrote. After the first error it returns zero
// values only.
type decoder struct {
	b   []byte
	err error
}

// end returns the first error; bytes left over are one.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.err = errMalformed
	}
	return d.err
}

func (d *decoder) fail() {
	if d.err == nil {
		d.err = errMalformed
	}
	d.b = nil
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bool() bool {
	if len(d.b) == 0 || d.b[0] > 1 {
		d.fail()
		return false
	}
	v := d.b[0] == 1
	d.b = d.b[1:]
	return v
}

// raw returns bytes that belong to the message.
func (d *decoder) raw() []byte {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) string() string { return string(d.raw()) }

// count reads how many things follow, each of at least one byte.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) strings() []string {
	n := d.count()
	// What is claimed is not reserved: a string in memory is bigger than on the wire.
	v := make([]string, 0, min(n, 64))
	for range n {
		if d.err != nil {
			return nil
		}
		v = append(v, d.string())
	}
	return v
}

func (d *decoder) env() map[string]string {
	n := d.count()
	if n == 0 {
		return nil
	}
	v := make(map[string]string, min(n, 64))
	for range n {
		if d.err != nil {
			return nil
		}
		name := d.string()
		v[name] = d.string()
	}
	return v
}
