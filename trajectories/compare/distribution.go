package compare

import "math"

// SignP is the exact two-sided probability, under equal chances, of a split at
// least as uneven as the given one: 2·P(X ≤ min) for X ~ Binomial(n, ½), at most 1.
func SignP(one, other int) float64 {
	n, k := one+other, min(one, other)
	if n == 0 {
		return 1
	}
	sum := 0.0
	for i := 0; i <= k; i++ {
		sum += math.Exp(logChoose(n, i) - float64(n)*math.Ln2)
	}
	return math.Min(1, 2*sum)
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n) + 1)
	b, _ := math.Lgamma(float64(k) + 1)
	c, _ := math.Lgamma(float64(n-k) + 1)
	return a - b - c
}

// studentCDF is the distribution function of Student's t.
func studentCDF(t, freedom float64) float64 {
	if t == 0 {
		return 0.5
	}
	tail := 0.5 * incompleteBeta(freedom/2, 0.5, freedom/(freedom+t*t))
	if t > 0 {
		return 1 - tail
	}
	return tail
}

// studentQuantile is the value that a share p ≥ ½ of Student's t lies below.
func studentQuantile(p, freedom float64) float64 {
	low, high := 0.0, 1.0
	for studentCDF(high, freedom) < p && high < 1e12 {
		high *= 2
	}
	for range 80 {
		if middle := (low + high) / 2; studentCDF(middle, freedom) < p {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// incompleteBeta is the regularised incomplete beta function I_x(a, b), by its
// continued fraction (Lentz's method).
func incompleteBeta(a, b, x float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	if x > (a+1)/(a+b+2) {
		return 1 - incompleteBeta(b, a, 1-x)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a
	const tiny = 1e-300
	f, c, d := 1.0, 1.0, 0.0
	for i := 0; i <= 500; i++ {
		m := float64(i / 2)
		var numerator float64
		switch {
		case i == 0:
			numerator = 1
		case i%2 == 0:
			numerator = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			numerator = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		if d = 1 + numerator*d; math.Abs(d) < tiny {
			d = tiny
		}
		d = 1 / d
		if c = 1 + numerator/c; math.Abs(c) < tiny {
			c = tiny
		}
		f *= c * d
		if math.Abs(1-c*d) < 1e-14 {
			break
		}
	}
	return front * (f - 1)
}
