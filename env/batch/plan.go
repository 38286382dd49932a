package batch

import "slices"

// past is what earlier sessions left of a run.
type past struct {
	items   map[string]bool // ids of items with a rollout that counts
	foreign []place         // rows that were not made from those rollouts
	indices map[int]bool    // every prompt_index in use
	// completed are the indices that checkpoint.json calls done.
	completed []int
}

// plan is what is left to do.
type plan struct {
	pending []todo
	done    int // rows of the dataset that are not run
	// discarded are rows that the original's checkpoint calls done and that have no line:
	// its discards left none.
	discarded []todo
	// distrusted is how many indices of the checkpoint could not be believed.
	distrusted int
}

// todo is a row of the dataset under the index its trajectory gets.
type todo struct {
	position int
	index    int
}

// makePlan decides what has to run. A row is done when a rollout of its content is
// recorded, or when a foreign row has its text; every foreign row stands for one row of
// the dataset, so that duplicates stay distinct.
func makePlan(rows []row, p *past) plan {
	done := make([]bool, len(rows))
	byText := make(map[textHash][]int)
	for i := range rows {
		done[i] = p.items[rows[i].itemID()]
		byText[rows[i].text] = append(byText[rows[i].text], i)
	}
	inPlace := func(f place) bool {
		return f.index >= 0 && f.index < len(rows) && rows[f.index].text == f.text
	}
	var displaced []place
	unchanged := true // every foreign row still stands where it stood
	for _, f := range p.foreign {
		if inPlace(f) && !done[f.index] {
			done[f.index] = true
			continue
		}
		unchanged = unchanged && inPlace(f)
		displaced = append(displaced, f)
	}
	for _, f := range displaced {
		candidates := byText[f.text]
		if i := slices.IndexFunc(candidates, func(i int) bool { return !done[i] }); i >= 0 {
			done[candidates[i]] = true
		}
	}
	var out plan
	rowless := make([]int, 0)
	for _, index := range p.completed {
		if !p.indices[index] {
			rowless = append(rowless, index)
			unchanged = unchanged && index >= 0 && index < len(rows)
		}
	}
	for _, index := range rowless {
		switch {
		case !unchanged:
			out.distrusted++
		case !done[index]:
			done[index] = true
			out.discarded = append(out.discarded, todo{index, index})
			p.indices[index] = true
		}
	}
	next := len(rows)
	for index := range p.indices {
		next = max(next, index+1)
	}
	for i := range rows {
		if done[i] {
			out.done++
			continue
		}
		index := i
		if p.indices[i] { // the dataset was edited: the number belongs to another prompt
			index = next
			next++
		}
		out.pending = append(out.pending, todo{i, index})
	}
	return out
}
