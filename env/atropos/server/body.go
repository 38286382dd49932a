package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/hermes-env/hermes-env/env/atropos"
)

// drainLimit is how many bytes of a refused request are still read, and thrown away.
const drainLimit = 256 << 20

// read returns the body of a request, unpacked; done gives its memory back.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (body []byte, done func(), err error) {
	held := &reservation{server: s}
	sent := io.Reader(&patientReader{body: r.Body, control: http.NewResponseController(w), stall: s.config.Stall, read: &s.counters.received})
	defer func() {
		if err != nil {
			held.release()
			// Many clients read no answer before they have sent everything: one whose
			// connection is closed meanwhile never learns what was wrong.
			_, _ = io.CopyN(io.Discard, sent, drainLimit)
		}
	}()
	if r.ContentLength > s.config.MaxBody {
		return nil, nil, s.tooLarge()
	}
	source := sent
	original := s.config.Rules.AcceptImpossible
	switch encoding := contentEncoding(r.Header); {
	case encoding == "gzip", encoding == "x-gzip", original && strings.Contains(encoding, "gzip"):
		if source, err = unzip(source); err != nil {
			return nil, nil, err
		}
	case encoding == "zstd":
		if err := held.grow(r.Context(), firstRead+maxWindow/perByte); err != nil {
			return nil, nil, err
		}
		decoder, err := unzstd(source)
		if err != nil {
			return nil, nil, err
		}
		defer decoder.Close()
		source = &zstdReader{decoder}
	case encoding != "" && !original:
		w.Header().Set("Accept-Encoding", "gzip, zstd")
		return nil, nil, &statusError{code: http.StatusUnsupportedMediaType, detail: fmt.Sprintf("the body has the content encoding %q: send it as gzip, zstd or without one", encoding)}
	}
	body, err = s.readAll(r.Context(), source, held)
	if err != nil {
		return nil, nil, err
	}
	if len(body) == 0 {
		return nil, nil, atropos.Missing()
	}
	if kind := r.Header.Get("Content-Type"); kind != "" && !isJSON(kind) {
		return nil, nil, atropos.NotJSON()
	}
	return body, held.release, nil
}

// contentEncoding returns the encodings of a body in lower case, without those that change
// nothing.
func contentEncoding(h http.Header) string {
	var list []string
	for _, one := range strings.Split(strings.ToLower(strings.Join(h.Values("Content-Encoding"), ",")), ",") {
		if one = strings.TrimSpace(one); one != "" && one != "identity" {
			list = append(list, one)
		}
	}
	return strings.Join(list, ", ")
}

// unzip unpacks a stream of gzip members; an empty one stays empty.
func unzip(source io.Reader) (io.Reader, error) {
	var first [1]byte
	n, err := io.ReadFull(source, first[:])
	if n == 0 && errors.Is(err, io.EOF) {
		return bytes.NewReader(nil), nil
	}
	if err != nil {
		return nil, broken(err)
	}
	z, err := gzip.NewReader(io.MultiReader(bytes.NewReader(first[:]), source))
	if err != nil {
		return nil, badGzip(err)
	}
	return &zipped{z}, nil
}

// zipped marks errors of the format, as against those of the connection.
type zipped struct{ r *gzip.Reader }

func (z *zipped) Read(p []byte) (int, error) {
	n, err := z.r.Read(p)
	if err != nil && err != io.EOF {
		err = badGzip(err)
	}
	return n, err
}

func badGzip(err error) error { return badPayload(err, "Invalid gzip payload") }

// badPayload turns an error of the format into a reply; those of the connection stay.
func badPayload(err error, detail string) error {
	var status *statusError
	var network net.Error
	if errors.As(err, &status) || errors.As(err, &network) || errors.Is(err, errBody) {
		return err
	}
	return &statusError{code: http.StatusBadRequest, detail: detail, plain: true}
}

// maxWindow is the memory that a zstd body may ask for to be unpacked, in bytes. It is
// the least that RFC 8878 asks decoders to support.
const maxWindow = 8 << 20

func unzstd(source io.Reader) (*zstd.Decoder, error) {
	decoder, err := zstd.NewReader(source, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, badZstd(err)
	}
	return decoder, nil
}

// zstdReader marks errors of the format, as against those of the connection.
type zstdReader struct{ decoder *zstd.Decoder }

func (z *zstdReader) Read(p []byte) (int, error) {
	n, err := z.decoder.Read(p)
	if err != nil && err != io.EOF {
		err = badZstd(err)
	}
	return n, err
}

func badZstd(err error) error { return badPayload(err, "Invalid zstd payload") }

// firstRead is the room for a body before any of it has arrived, in bytes. It is not
// what the client announces: one that sends nothing more must not hold much.
const firstRead = 16 << 10

// readAll reads to the end, within the limits on size and memory.
func (s *Server) readAll(ctx context.Context, source io.Reader, held *reservation) ([]byte, error) {
	if err := held.grow(ctx, firstRead); err != nil {
		return nil, err
	}
	body := make([]byte, 0, firstRead)
	for {
		if len(body) == cap(body) {
			if int64(len(body)) > s.config.MaxBody {
				return nil, s.tooLarge()
			}
			size := min(2*int64(cap(body)), s.config.MaxBody+1)
			if err := held.grow(ctx, size); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := source.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if int64(len(body)) > s.config.MaxBody {
			return nil, s.tooLarge()
		}
		switch {
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, broken(err)
		}
	}
}

func (s *Server) tooLarge() error {
	return &statusError{code: http.StatusRequestEntityTooLarge, detail: fmt.Sprintf("the body has more than %d bytes, unpacked: send fewer groups at a time", s.config.MaxBody)}
}

// broken turns an error of a connection into a reply, for what it may be worth.
func broken(err error) error {
	var status *statusError
	if errors.As(err, &status) {
		return err
	}
	return &statusError{code: http.StatusRequestTimeout, detail: "the body did not arrive: " + err.Error()}
}

// errBody marks errors of the connection.
var errBody = errors.New("read the body")

// leastPerStall is how many bytes must arrive while a connection may stall: clients
// that trickle would keep what they hold for as long as they like.
const leastPerStall = 32 << 10

// patientReader gives up when nothing arrives for a while, or next to nothing.
type patientReader struct {
	body    io.Reader
	control *http.ResponseController
	stall   time.Duration
	read    interface{ Add(int64) int64 }

	arrived int           // bytes, since enough of them had arrived
	waited  time.Duration // for them
}

func (p *patientReader) Read(b []byte) (int, error) {
	switch {
	case p.arrived >= leastPerStall:
		p.arrived, p.waited = 0, 0
	case p.waited > p.stall:
		return 0, fmt.Errorf("%w: only %d bytes came in %s", errBody, p.arrived, p.stall)
	}
	begun := time.Now()
	if err := p.control.SetReadDeadline(begun.Add(p.stall)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, fmt.Errorf("%w: %w", errBody, err)
	}
	n, err := p.body.Read(b)
	p.read.Add(int64(n))
	p.arrived += n
	p.waited += time.Since(begun)
	if err == io.EOF {
		// The deadline would end the connection while the request is being served.
		if e := p.control.SetReadDeadline(time.Time{}); e != nil && !errors.Is(e, http.ErrNotSupported) {
			return n, fmt.Errorf("%w: %w", errBody, e)
		}
		return n, err
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errBody, err)
	}
	return n, err
}

func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	return kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}
