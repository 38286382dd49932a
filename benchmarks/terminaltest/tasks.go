package terminaltest

// Task is one inline task: write a file, checked by its content.
type Task struct {
	ID       string `json:"id"`
	Prompt   string `json:"prompt"`
	Path     string `json:"verify_path"`      // relative to the home directory with a leading ~/
	Expected string `json:"expected_content"` // compared after trimming white space at both ends
}

// trainTasks returns the items of process, evalTasks the held-out ones of evaluate.
func trainTasks() []Task {
	return []Task{
		{
			ID:       "greeting",
			Prompt:   "Write a file named greeting.txt in your home directory (~/greeting.txt). It must contain exactly this line: Hello from the sandbox",
			Path:     "~/greeting.txt",
			Expected: "Hello from the sandbox",
		},
		{
			ID:       "count",
			Prompt:   "Write the whole numbers from 1 to 5, in order and one per line, to the file ~/count.txt.",
			Path:     "~/count.txt",
			Expected: "1\n2\n3\n4\n5",
		},
		{
			ID:       "sum",
			Prompt:   "Work out 123 + 456 and write only the result to the file ~/sum.txt.",
			Path:     "~/sum.txt",
			Expected: "579",
		},
	}
}

func evalTasks() []Task {
	return []Task{{
		ID:       "product",
		Prompt:   "Work out 17 * 23 and write only the result to the file ~/product.txt.",
		Path:     "~/product.txt",
		Expected: "391",
	}}
}
