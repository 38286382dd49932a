package dataset

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func streamOf(r io.Reader, limit int64) *jsonStream {
	return newJSONStream(&text{Reader: bufio.NewReaderSize(r, 16)}, limit)
}

func TestValuesAreTakenFromAStreamWhereverItsPiecesEnd(t *testing.T) {
	values := []string{
		`{"a":"}\"]","b":[1,{"c":"\\"}]}`, `[]`, `"a \u0022 \\"`, `-1.5e3`, `true`, `{"long":"` + strings.Repeat(`\\`, 40) + `"}`, `null`,
	}
	whole := strings.Join(values, " ,\n")
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(whole), "byte by byte": iotest.OneByteReader(strings.NewReader(whole)), "end with the data": iotest.DataErrReader(strings.NewReader(whole)),
	} {
		t.Run(name, func(t *testing.T) {
			s := streamOf(r, 1000)
			for i, want := range values {
				if i > 0 {
					require.NoError(t, s.take("a comma", ','))
				}
				got, err := s.value(true)
				require.NoError(t, err)
				require.Equal(t, want, string(got))
			}
			require.EqualValues(t, len(values), s.line)
			require.EqualValues(t, len(whole), s.offset)
			_, err := s.peek()
			require.ErrorIs(t, err, io.EOF)
		})
	}
}

func TestAValueOverTheLimitIsPassedOverWithoutBeingKept(t *testing.T) {
	s := streamOf(io.MultiReader(strings.NewReader(`"`), bytes.NewReader(bytes.Repeat([]byte("x"), 1<<20)), strings.NewReader(`", 7`)), 100)
	_, err := s.value(true)
	require.ErrorIs(t, err, errLong)
	require.Less(t, cap(s.buf), 4096)
	require.NoError(t, s.take("a comma", ','))
	next, err := s.value(true)
	require.NoError(t, err)
	require.Equal(t, "7", string(next))
}

func TestAStreamThatEndsInAValueIsCut(t *testing.T) {
	for _, src := range []string{`{"a":1`, `[1,`, `"abc`, `"abc\`, `{"a":"}`, ``} {
		_, err := streamOf(strings.NewReader(src), 100).value(true)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, src)
	}
	_, err := streamOf(strings.NewReader("]"), 100).value(true)
	require.ErrorContains(t, err, `want a value, got "]"`)
}
