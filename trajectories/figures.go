package trajectories

import (
	"math"
	"strconv"
	"strings"
)

// Dollars writes an amount of money in USD with cents, and with more digits where it
// is less than a dollar and needs them.
func Dollars(usd float64) string {
	switch {
	case usd == 0 || usd >= 1:
		return "$" + strconv.FormatFloat(usd, 'f', 2, 64)
	case usd >= 0.01:
		return "$" + strings.TrimSuffix(strconv.FormatFloat(usd, 'f', 3, 64), "0")
	}
	return "$" + strconv.FormatFloat(usd, 'f', 1-int(math.Floor(math.Log10(math.Abs(usd)))), 64) // two digits
}

// Thousands writes an integer with a comma between groups of three digits.
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
