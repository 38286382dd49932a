package modeltest

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"
)

// fault is a way in which a reply goes wrong on its way.
type fault int

const (
	noFault fault = iota
	faultReset
	faultClose
	faultHang
	faultTruncate
	faultCutOff
	faultResetBody
	faultStall
)

// Reset drops the connection with a TCP reset before any header.
func Reset() Reply { return Reply{fault: faultReset} }

// CloseConnection ends the connection in an orderly way before any header.
func CloseConnection() Reply { return Reply{fault: faultClose} }

// Hang sends nothing until the client leaves or the server closes.
func Hang() Reply { return Reply{fault: faultHang} }

// Truncated sends half of the body as if it were whole: the HTTP is right, the JSON is not.
func (r Reply) Truncated() Reply { r.fault = faultTruncate; return r }

// CutOff announces the whole body and closes the connection after half of it.
func (r Reply) CutOff() Reply { r.fault = faultCutOff; return r }

// ResetMidBody sends headers and half of the body, then resets the connection.
func (r Reply) ResetMidBody() Reply { r.fault = faultResetBody; return r }

// Stalled sends headers and half of the body, then nothing until the client
// leaves or the server closes.
func (r Reply) Stalled() Reply { r.fault = faultStall; return r }

// Dripped sends the body in eight pieces with a pause before each.
func (r Reply) Dripped(pause time.Duration) Reply { r.pause = pause; return r }

// play sends a reply with its faults.
func (h *Handler) play(ctx context.Context, w http.ResponseWriter, reply *Reply, body []byte) {
	switch reply.fault {
	case faultReset:
		drop(w, true)
		return
	case faultClose:
		drop(w, false)
		return
	case faultHang:
		h.sleep(ctx, -1)
		drop(w, false)
		return
	case faultTruncate:
		body = body[:len(body)/2]
	}
	header := w.Header()
	for name, values := range reply.header {
		header[name] = values
	}
	header["Content-Type"] = []string{reply.contentType}
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(reply.status)
	half := body[:len(body)/2]
	switch reply.fault {
	case faultCutOff, faultResetBody:
		send(w, half)
		drop(w, reply.fault == faultResetBody)
	case faultStall:
		send(w, half)
		h.sleep(ctx, -1)
		drop(w, false)
	default:
		if reply.pause <= 0 {
			_, _ = w.Write(body) // a client that left is not the server's problem
			return
		}
		const pieces = 8
		for i := range pieces {
			if !h.sleep(ctx, reply.pause) {
				drop(w, false)
				return
			}
			send(w, body[i*len(body)/pieces:(i+1)*len(body)/pieces])
		}
	}
}

// send writes a piece at once. Errors mean that the client left.
func send(w http.ResponseWriter, piece []byte) {
	_, _ = w.Write(piece)
	_ = http.NewResponseController(w).Flush()
}

// drop ends the connection of the request, with a TCP reset when asked for.
func drop(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 or a recorder: net/http's own way to break off
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// sleep waits for d, or for ever when d is negative. It returns false when the
// client left or the server closes first.
func (h *Handler) sleep(ctx context.Context, d time.Duration) bool {
	var expired <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-expired:
		return true
	case <-ctx.Done():
	case <-h.closing:
	}
	return false
}
