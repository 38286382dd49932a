package parquetrows

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// leafEncoder appends the JSON of a value that isn't null. A *notFinite error is a remark; any other makes the row a bad one.
type leafEncoder func(dst []byte, v *parquet.Value) ([]byte, error)

// notFinite is the remark about a number that JSON has not.
type notFinite struct{ word string }

func (n *notFinite) Error() string { return n.word + " is not JSON and is read as null" }

// newLeafEncoder chooses how the values of a column become JSON, by its logical type, else its older converted type, else the
// way it is stored.
func newLeafEncoder(e *format.SchemaElement) (leafEncoder, error) {
	stored := e.Type.V
	integer := stored == format.Int32 || stored == format.Int64
	switch t := e.LogicalType.Value.(type) {
	case *format.StringType, *format.EnumType, *format.JsonType:
		return encodeText, nil
	case *format.DecimalType:
		return decimalEncoder(stored, t.Scale)
	case *format.DateType:
		return encodeDate, nil
	case *format.TimeType:
		if unit := unitOf(&t.Unit); unit > 0 && integer {
			return timeEncoder(stored, unit), nil
		}
	case *format.TimestampType:
		if unit := unitOf(&t.Unit); unit > 0 && stored == format.Int64 {
			return timestampEncoder(unit, t.IsAdjustedToUTC), nil
		}
	case *format.IntType:
		if integer {
			return integerEncoder(stored, t.IsSigned), nil
		}
	case *format.UUIDType:
		return encodeUUID, nil
	case *format.Float16Type:
		return encodeFloat16, nil
	case *format.NullType:
		return func(dst []byte, _ *parquet.Value) ([]byte, error) { return append(dst, "null"...), nil }, nil
	case *format.BsonType, *format.GeometryType, *format.GeographyType:
		return encodeBase64, nil
	}
	if e.ConvertedType.Valid {
		switch e.ConvertedType.V {
		case deprecated.UTF8, deprecated.Enum, deprecated.Json:
			return encodeText, nil
		case deprecated.Decimal:
			return decimalEncoder(stored, e.Scale.V)
		case deprecated.Date:
			return encodeDate, nil
		case deprecated.TimeMillis:
			return timeEncoder(stored, time.Millisecond), nil
		case deprecated.TimeMicros:
			return timeEncoder(stored, time.Microsecond), nil
		case deprecated.TimestampMillis:
			return timestampEncoder(time.Millisecond, true), nil
		case deprecated.TimestampMicros:
			return timestampEncoder(time.Microsecond, true), nil
		case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
			return integerEncoder(stored, false), nil
		case deprecated.Interval:
			return encodeInterval, nil
		case deprecated.Bson:
			return encodeBase64, nil
		}
	}
	switch stored {
	case format.Boolean:
		return func(dst []byte, v *parquet.Value) ([]byte, error) { return strconv.AppendBool(dst, v.Boolean()), nil }, nil
	case format.Int32, format.Int64:
		return integerEncoder(stored, true), nil
	case format.Int96:
		return encodeInt96, nil
	case format.Float:
		return func(dst []byte, v *parquet.Value) ([]byte, error) { return appendFloat(dst, float64(v.Float()), 32) }, nil
	case format.Double:
		return func(dst []byte, v *parquet.Value) ([]byte, error) { return appendFloat(dst, v.Double(), 64) }, nil
	case format.ByteArray, format.FixedLenByteArray:
		return encodeBinary, nil
	}
	return nil, fmt.Errorf("%w: the column is of the unknown type %d", ErrFormat, stored)
}

func integerEncoder(stored format.Type, signed bool) leafEncoder {
	switch {
	case stored == format.Int32 && signed:
		return func(dst []byte, v *parquet.Value) ([]byte, error) {
			return strconv.AppendInt(dst, int64(v.Int32()), 10), nil
		}
	case stored == format.Int32:
		return func(dst []byte, v *parquet.Value) ([]byte, error) {
			return strconv.AppendUint(dst, uint64(v.Uint32()), 10), nil
		}
	case signed:
		return func(dst []byte, v *parquet.Value) ([]byte, error) { return strconv.AppendInt(dst, v.Int64(), 10), nil }
	}
	return func(dst []byte, v *parquet.Value) ([]byte, error) {
		return strconv.AppendUint(dst, v.Uint64(), 10), nil
	}
}

// integer is the value of an integer column of either width.
func integer(stored format.Type, v *parquet.Value) int64 {
	if stored == format.Int32 {
		return int64(v.Int32())
	}
	return v.Int64()
}

// appendFloat writes a number with the fewest digits that give it back, in the form that Python's repr has: 1.0, 1e-05, 1e+16.
func appendFloat(dst []byte, f float64, bits int) ([]byte, error) {
	switch {
	case math.IsNaN(f):
		return append(dst, "null"...), &notFinite{"NaN"}
	case math.IsInf(f, 1):
		return append(dst, "null"...), &notFinite{"Infinity"}
	case math.IsInf(f, -1):
		return append(dst, "null"...), &notFinite{"-Infinity"}
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, bits), nil
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
	for _, c := range dst[start:] {
		if c == '.' {
			return dst, nil
		}
	}
	return append(dst, '.', '0'), nil
}

func encodeFloat16(dst []byte, v *parquet.Value) ([]byte, error) {
	b := v.ByteArray()
	if len(b) != 2 {
		return dst, fmt.Errorf("a half-precision number of %d bytes", len(b))
	}
	half := binary.LittleEndian.Uint16(b)
	sign, exponent, fraction := half>>15, int(half>>10&0x1F), float64(half&0x3FF)
	var f float64
	switch exponent {
	case 0:
		f = math.Ldexp(fraction, -24)
	case 31:
		f = math.Inf(1)
		if fraction != 0 {
			f = math.NaN()
		}
	default:
		f = math.Ldexp(1024+fraction, exponent-25)
	}
	if sign == 1 {
		f = -f
	}
	return appendFloat(dst, f, 32)
}

// encodeText writes a string column.
func encodeText(dst []byte, v *parquet.Value) ([]byte, error) {
	b := v.ByteArray()
	if !utf8.Valid(b) {
		return dst, fmt.Errorf("the text is not UTF-8 from byte %d on", badUTF8(b)+1)
	}
	return AppendString(dst, b), nil
}

// encodeBinary writes bytes of no stated meaning: as text when they look like it, since older writers don't state that, else as
// base64.
func encodeBinary(dst []byte, v *parquet.Value) ([]byte, error) {
	b := v.ByteArray()
	control := func(c byte) bool { return c < ' ' && c != '\t' && c != '\n' && c != '\r' }
	if utf8.Valid(b) && !slices.ContainsFunc(b, control) {
		return AppendString(dst, b), nil
	}
	return encodeBase64(dst, v)
}

func encodeBase64(dst []byte, v *parquet.Value) ([]byte, error) {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, v.ByteArray())
	return append(dst, '"'), nil
}

func encodeUUID(dst []byte, v *parquet.Value) ([]byte, error) {
	b := v.ByteArray()
	if len(b) != 16 {
		return dst, fmt.Errorf("a UUID of %d bytes", len(b))
	}
	dst = append(dst, '"')
	for i, part := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return append(dst, '"'), nil
}

// decimalEncoder writes decimals as numbers with all their digits, as many after the point as the column says.
func decimalEncoder(stored format.Type, scale int32) (leafEncoder, error) {
	const limit = 1000
	if scale < -limit || scale > limit {
		return nil, fmt.Errorf("%w: a decimal with %d digits after the point", ErrFormat, scale)
	}
	return func(dst []byte, v *parquet.Value) ([]byte, error) {
		switch stored {
		case format.Int32, format.Int64:
			return appendDecimal(dst, strconv.FormatInt(integer(stored, v), 10), int(scale)), nil
		}
		b := v.ByteArray()
		if len(b) > limit {
			return dst, fmt.Errorf("a decimal of %d bytes", len(b))
		}
		unscaled := new(big.Int).SetBytes(b)
		if len(b) > 0 && b[0] >= 0x80 {
			unscaled.Sub(unscaled, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		return appendDecimal(dst, unscaled.String(), int(scale)), nil
	}, nil
}

// appendDecimal puts the point into digits.
func appendDecimal(dst []byte, digits string, scale int) []byte {
	if digits[0] == '-' {
		dst, digits = append(dst, '-'), digits[1:]
	}
	if scale <= 0 {
		dst = append(dst, digits...)
		for ; scale < 0 && digits != "0"; scale++ {
			dst = append(dst, '0')
		}
		return dst
	}
	if len(digits) <= scale {
		dst = append(dst, '0', '.')
		for i := len(digits); i < scale; i++ {
			dst = append(dst, '0')
		}
		return append(dst, digits...)
	}
	dst = append(dst, digits[:len(digits)-scale]...)
	dst = append(dst, '.')
	return append(dst, digits[len(digits)-scale:]...)
}

// unitOf is the length of a unit of time, 0 when it is none that is known.
func unitOf(u *format.TimeUnit) time.Duration {
	switch u.Value.(type) {
	case *format.MilliSeconds:
		return time.Millisecond
	case *format.MicroSeconds:
		return time.Microsecond
	case *format.NanoSeconds:
		return time.Nanosecond
	}
	return 0
}

func encodeDate(dst []byte, v *parquet.Value) ([]byte, error) {
	const day = 24 * 60 * 60
	return quotedTime(dst, time.Unix(int64(v.Int32())*day, 0), "2006-01-02"), nil
}

func quotedTime(dst []byte, t time.Time, layout string) []byte {
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, layout)
	return append(dst, '"')
}

// timestampEncoder writes instants as RFC 3339; local times, which are no instants, the same way without an offset.
func timestampEncoder(unit time.Duration, instant bool) leafEncoder {
	layout := "2006-01-02T15:04:05.999999999"
	if instant {
		layout += "Z07:00"
	}
	perSecond := int64(time.Second / unit)
	return func(dst []byte, v *parquet.Value) ([]byte, error) {
		n := v.Int64()
		seconds, rest := n/perSecond, n%perSecond
		return quotedTime(dst, time.Unix(seconds, rest*int64(unit)), layout), nil
	}
}

// encodeInt96 writes the timestamps of older writers: nanoseconds of a day, and the day in the Julian count. Whose clock they
// show isn't stated.
func encodeInt96(dst []byte, v *parquet.Value) ([]byte, error) {
	const day, julianOfUnixEpoch = 24 * 60 * 60, 2440588
	i := v.Int96()
	nanoseconds := int64(uint64(i[1])<<32 | uint64(i[0]))
	t := time.Unix((int64(i[2])-julianOfUnixEpoch)*day, 0).Add(time.Duration(nanoseconds))
	return quotedTime(dst, t, "2006-01-02T15:04:05.999999999"), nil
}

func timeEncoder(stored format.Type, unit time.Duration) leafEncoder {
	return func(dst []byte, v *parquet.Value) ([]byte, error) {
		n := integer(stored, v)
		if n < 0 || n > int64(24*time.Hour/unit) {
			return dst, fmt.Errorf("%d is not a time of day", n)
		}
		if n == int64(24*time.Hour/unit) {
			return append(dst, `"24:00:00"`...), nil
		}
		return quotedTime(dst, time.Unix(0, n*int64(unit)), "15:04:05.999999999"), nil
	}
}

// encodeInterval writes months, days and milliseconds as ISO 8601 does: P1M2DT3.5S.
func encodeInterval(dst []byte, v *parquet.Value) ([]byte, error) {
	b := v.ByteArray()
	if len(b) != 12 {
		return dst, fmt.Errorf("an interval of %d bytes", len(b))
	}
	milliseconds := binary.LittleEndian.Uint32(b[8:])
	dst = append(dst, '"', 'P')
	dst = strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint32(b)), 10)
	dst = append(dst, 'M')
	dst = strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint32(b[4:])), 10)
	dst = append(dst, 'D', 'T')
	dst = strconv.AppendFloat(dst, float64(milliseconds)/1000, 'f', -1, 64)
	return append(dst, 'S', '"'), nil
}
