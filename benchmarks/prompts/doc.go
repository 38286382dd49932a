// Package prompts is the environment prompts, which needs no Go: any dataset that env/dataset reads, prompts made from its
// columns, per-row sandboxes, and a reward of env/reward, all said in YAML.
//
// An item is one row. Its id is the row's content key, so that finished rows stay finished when the dataset is reordered or
// appended to, and its digest covers the row. Rows that can't be used are named, and then end the run or are left out and counted.
// The package never puts the whole dataset into memory, and lets no row read or write files of this machine.
package prompts
