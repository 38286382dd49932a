package compress

// region is the turns from start up to end, end not included.
type region struct{ start, end int }

func (r region) len() int { return r.end - r.start }

// protected says which turns stay: the first of each role that is to be kept, wherever it
// stands, and the last ones.
func protected(turns []turn, c *Config) []bool {
	keep := make([]bool, len(turns))
	p := c.ProtectedTurns
	wanted := map[string]bool{"system": p.FirstSystem, "human": p.FirstHuman, "gpt": p.FirstGPT, "tool": p.FirstTool}
	for i, t := range turns {
		if wanted[t.role] {
			keep[i] = true
			wanted[t.role] = false
		}
		if i >= len(turns)-p.LastNTurns {
			keep[i] = true
		}
	}
	return keep
}

// findRegion chooses what to summarise so that need tokens go away: the earliest stretch
// of unprotected turns that has them, cut after just enough turns, else the stretch with the
// most. A call and its answers are on the same side of each cut. The summary is a human turn,
// so a cut beside another human turn is made only where the need can't be met without.
func findRegion(turns []turn, c *Config, need int) (best region, found bool) {
	keep := protected(turns, c)
	most := -1
	for lo := 0; lo < len(turns); {
		if keep[lo] {
			lo++
			continue
		}
		hi := lo
		for hi < len(turns) && !keep[hi] {
			hi++
		}
		if r, tokens, ok := cut(turns, lo, hi, need); ok {
			if tokens >= need {
				return r, true
			}
			if tokens > most {
				best, most, found = r, tokens, true
			}
		}
		lo = hi
	}
	return best, found
}

// cut chooses a region within the unprotected turns from lo up to hi.
func cut(turns []turn, lo, hi, need int) (best region, tokens int, found bool) {
	quality := -1
	for _, strict := range []bool{true, false} {
		start := -1
		for s := lo; s < hi; s++ {
			if turns[s].role == "tool" || strict && s > 0 && turns[s-1].role == "human" {
				continue
			}
			start = s
			break
		}
		if start < 0 {
			continue
		}
		sum := 0
		for e := start + 1; e <= hi; e++ {
			sum += turns[e-1].tokens
			if e < len(turns) && (turns[e].role == "tool" || strict && turns[e].role == "human") {
				continue
			}
			// Enough is better than clean, clean is better than more.
			q := 0
			if strict {
				q = 1
			}
			if sum >= need {
				q += 2
			}
			if q > quality || q == quality && q < 2 {
				best, tokens, quality, found = region{start, e}, sum, q, true
			}
			if sum >= need {
				break
			}
		}
	}
	return best, tokens, found
}
