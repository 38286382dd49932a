package chattemplate

import (
	"encoding/json"
	"fmt"
)

// Cache keeps what the messages and tools of a conversation decode to from one
// rendering to the next, for a conversation that grows. A part is taken from it only
// when it is the very bytes that were decoded before, at the same place. Templates can't
// change values. The zero value is ready; one goroutine at a time may render with it.
type Cache struct {
	messages, tools []decoded
	how             preparation // of the messages
	size            int         // of the text that was rendered last
}

// decoded is a value and the bytes it was decoded from, which it keeps alive so that no
// other bytes can have their address.
type decoded struct {
	raw json.RawMessage
	v   value
}

func (d *decoded) is(raw json.RawMessage) bool {
	return len(d.raw) == len(raw) && len(raw) > 0 && &d.raw[0] == &raw[0]
}

// roomToGrow is by how much a text may outgrow the last one before it is moved.
const roomToGrow = 8 << 10

// message decodes and prepares the message at a place of the conversation.
func (c *Cache) message(i int, raw json.RawMessage, how preparation) (value, error) {
	if c != nil && i < len(c.messages) && c.messages[i].is(raw) && c.how == how {
		return c.messages[i].v, nil
	}
	v, err := decodeJSON(raw)
	if err == nil {
		v, err = prepare(v, how)
	}
	if err != nil {
		return nil, fmt.Errorf("message %d: %w", i, err)
	}
	if c == nil {
		return v, nil
	}
	if c.how != how {
		c.messages, c.how = nil, how
	}
	c.messages = keep(c.messages, i, decoded{raw, v})
	return v, nil
}

// tool decodes the tool definition at a place of their list.
func (c *Cache) tool(i int, raw json.RawMessage) (value, error) {
	if c != nil && i < len(c.tools) && c.tools[i].is(raw) {
		return c.tools[i].v, nil
	}
	v, err := decodeJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("tool %d: %w", i, err)
	}
	if c != nil {
		c.tools = keep(c.tools, i, decoded{raw, v})
	}
	return v, nil
}

// keep puts a value at its place; what stands before it is there already.
func keep(list []decoded, i int, d decoded) []decoded {
	if i < len(list) {
		list[i] = d
		return list
	}
	return append(list, d)
}

// buffer returns room for a text.
func (c *Cache) buffer() []byte {
	if c == nil || c.size == 0 {
		return nil
	}
	return make([]byte, 0, c.size+roomToGrow)
}

func (c *Cache) rendered(size int) {
	if c != nil {
		c.size = size
	}
}
