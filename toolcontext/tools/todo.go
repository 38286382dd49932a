package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

const (
	maxTodos     = 256
	maxTodoChars = 4000
)

// Todo returns the todo tool: the model's own list of what is to be done. It also
// answers to its later name, todo_list.
func Todo() Tool {
	return Tool{
		Name:    "todo",
		Toolset: "todo",
		Aliases: []string{"todo_list"},
		Description: "Keep a list of the steps of this task. Use it for work of three or more steps. " +
			"Call it without arguments to read the list, with todos to write it. The order is the priority; " +
			"keep one item in_progress and mark items completed as soon as they are. " +
			"merge=false replaces the list, merge=true updates items by id and adds new ones. Returns the whole list.",
		Parameters: []byte(`{"type":"object","properties":{` +
			`"todos":{"type":"array","description":"Items to write; leave out to read the list","items":{"type":"object","properties":{` +
			`"id":{"type":"string","description":"Unique identifier"},` +
			`"content":{"type":"string","description":"What is to be done"},` +
			`"status":{"type":"string","enum":["pending","in_progress","completed","cancelled"],"description":"Where it stands"},` +
			`"parent":{"type":"string","description":"id of the item this one is a step of"}` +
			`},"required":["id","content","status"]}},` +
			`"merge":{"type":"boolean","default":false,"description":"true: update by id and add; false: replace the list"}` +
			`},"required":[]}`),
		Handler: runTodo,
	}
}

type todoItem struct {
	ID      string `json:"id"`
	Content string `json:"content"`
	Status  string `json:"status"`
	Parent  string `json:"parent,omitempty"`
}

type todoSummary struct {
	Total      int `json:"total"`
	Pending    int `json:"pending"`
	InProgress int `json:"in_progress"`
	Completed  int `json:"completed"`
	Cancelled  int `json:"cancelled"`
}

type todoResult struct {
	Todos    []todoItem  `json:"todos"`
	Revision int         `json:"revision"`
	Summary  todoSummary `json:"summary"`
}

// todoList is the list of one rollout.
type todoList struct {
	items    []todoItem
	revision int // writes so far
}

func runTodo(_ context.Context, call *Call) (string, error) {
	merge, err := call.Args.Bool("merge")
	if err != nil {
		return ErrorResult(err.Error()), nil
	}
	raw := call.Args.Raw("todos")
	var items []todoItem
	if raw != nil {
		if items, err = parseTodos(raw); err != nil {
			return ErrorResult(err.Error()), nil
		}
	}
	s := call.State
	s.mu.Lock()
	defer s.mu.Unlock()
	if raw != nil {
		if err := s.todo.write(raw, items, merge); err != nil {
			return ErrorResult(err.Error()), nil
		}
	}
	return encode(s.todo.result()), nil
}

func parseTodos(raw json.RawMessage) ([]todoItem, error) {
	list := gjson.ParseBytes(raw)
	if !list.IsArray() {
		return nil, fmt.Errorf("invalid todos: expected array, got %s", kindOf(raw))
	}
	var items []todoItem
	for i, entry := range list.Array() {
		if !entry.IsObject() {
			return nil, fmt.Errorf("invalid todos: item %d is %s, not an object with id, content and status", i+1, kindOf([]byte(entry.Raw)))
		}
		items = append(items, normalTodo(entry))
	}
	return items, nil
}

// normalTodo reads one item leniently: what is missing or unknown gets a default.
func normalTodo(entry gjson.Result) todoItem {
	item := todoItem{
		ID:      strings.TrimSpace(textOf(entry.Get("id"))),
		Content: cutChars(strings.TrimSpace(textOf(entry.Get("content"))), maxTodoChars),
		Status:  strings.ToLower(strings.TrimSpace(textOf(entry.Get("status")))),
		Parent:  strings.TrimSpace(textOf(entry.Get("parent"))),
	}
	if item.ID == "" {
		item.ID = "?"
	}
	if item.Content == "" {
		item.Content = "(no description)"
	}
	switch item.Status {
	case "pending", "in_progress", "completed", "cancelled":
	default:
		item.Status = "pending"
	}
	return item
}

// textOf returns a text, or a number as its digits, because models number their items.
func textOf(v gjson.Result) string {
	switch v.Type {
	case gjson.String:
		return v.Str
	case gjson.Number:
		return v.Raw
	}
	return ""
}

func (l *todoList) write(raw json.RawMessage, items []todoItem, merge bool) error {
	next := lastOfEach(items)
	if merge {
		next = l.merged(gjson.ParseBytes(raw).Array(), items)
	}
	if len(next) > maxTodos {
		return fmt.Errorf("the list would have %d items, more than the %d allowed; merge or drop some", len(next), maxTodos)
	}
	l.items = liftActive(dropBadParents(next))
	l.revision++
	return nil
}

// merged updates known items, only in the fields the model gave, and appends new ones.
func (l *todoList) merged(entries []gjson.Result, items []todoItem) []todoItem {
	next := append([]todoItem(nil), l.items...)
	at := make(map[string]int, len(next))
	for i, item := range next {
		at[item.ID] = i
	}
	for i, item := range items {
		known, ok := at[item.ID]
		if !ok {
			at[item.ID] = len(next)
			next = append(next, item)
			continue
		}
		given := entries[i]
		if strings.TrimSpace(textOf(given.Get("content"))) != "" {
			next[known].Content = item.Content
		}
		if textOf(given.Get("status")) != "" {
			next[known].Status = item.Status
		}
		if given.Get("parent").Exists() {
			next[known].Parent = item.Parent
		}
	}
	return next
}

// lastOfEach keeps the last item of every id, where that one stands.
func lastOfEach(items []todoItem) []todoItem {
	last := make(map[string]int, len(items))
	for i, item := range items {
		last[item.ID] = i
	}
	var kept []todoItem
	for i, item := range items {
		if last[item.ID] == i {
			kept = append(kept, item)
		}
	}
	return kept
}

// dropBadParents clears parents that don't exist or lead in a circle.
func dropBadParents(items []todoItem) []todoItem {
	parents := make(map[string]string, len(items))
	for _, item := range items {
		parents[item.ID] = item.Parent
	}
	for i := range items {
		id := items[i].Parent
		for steps := 0; id != ""; steps++ {
			parent, exists := parents[id]
			if !exists || id == items[i].ID || steps > len(items) {
				items[i].Parent, parents[items[i].ID] = "", ""
				break
			}
			id = parent
		}
	}
	return items
}

// liftActive moves the first item in progress above the pending ones before it. A
// list with steps and sub-steps keeps its order.
func liftActive(items []todoItem) []todoItem {
	firstPending, active := -1, -1
	for i, item := range items {
		if item.Parent != "" {
			return items
		}
		if item.Status == "pending" && firstPending < 0 {
			firstPending = i
		}
		if item.Status == "in_progress" && active < 0 {
			active = i
		}
	}
	if firstPending < 0 || active < firstPending {
		return items
	}
	lifted := items[active]
	copy(items[firstPending+1:active+1], items[firstPending:active])
	items[firstPending] = lifted
	return items
}

func (l *todoList) result() todoResult {
	r := todoResult{Todos: append([]todoItem{}, l.items...), Revision: l.revision}
	for _, item := range l.items {
		r.Summary.Total++
		switch item.Status {
		case "pending":
			r.Summary.Pending++
		case "in_progress":
			r.Summary.InProgress++
		case "completed":
			r.Summary.Completed++
		case "cancelled":
			r.Summary.Cancelled++
		}
	}
	return r
}
