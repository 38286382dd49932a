package tools_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

func TestTodoKeepsOneList(t *testing.T) {
	r := newRollout(t, tools.Options{})
	for _, c := range []struct{ name, arguments, want string }{
		{"reading an empty list", `{}`, `{"todos":[],"revision":0,"summary":{"total":0,"pending":0,"in_progress":0,"completed":0,"cancelled":0}}`},
		{"writing", `{"todos":[{"id":"1","content":"a","status":"pending"},{"id":"2","content":"b","status":"in_progress"}]}`,
			`{"todos":[{"id":"2","content":"b","status":"in_progress"},{"id":"1","content":"a","status":"pending"}],"revision":1,"summary":{"total":2,"pending":1,"in_progress":1,"completed":0,"cancelled":0}}`},
		{"reading does not count as a revision", `null`,
			`{"todos":[{"id":"2","content":"b","status":"in_progress"},{"id":"1","content":"a","status":"pending"}],"revision":1,"summary":{"total":2,"pending":1,"in_progress":1,"completed":0,"cancelled":0}}`},
		{"merging changes only what is given", `{"merge":true,"todos":[{"id":"2","status":"completed"},{"id":3,"content":"c","status":"cancelled"}]}`,
			`{"todos":[{"id":"2","content":"b","status":"completed"},{"id":"1","content":"a","status":"pending"},{"id":"3","content":"c","status":"cancelled"}],"revision":2,"summary":{"total":3,"pending":1,"in_progress":0,"completed":1,"cancelled":1}}`},
		{"what is missing or wrong gets a default", `{"todos":[{},{"id":"x","content":"  ","status":"DONE?"}]}`,
			`{"todos":[{"id":"?","content":"(no description)","status":"pending"},{"id":"x","content":"(no description)","status":"pending"}],"revision":3,"summary":{"total":2,"pending":2,"in_progress":0,"completed":0,"cancelled":0}}`},
		{"the last of a repeated id counts", `{"todos":[{"id":"a","content":"1","status":"pending"},{"id":"b","content":"2","status":"pending"},{"id":"a","content":"3","status":"pending"}]}`,
			`{"todos":[{"id":"b","content":"2","status":"pending"},{"id":"a","content":"3","status":"pending"}],"revision":4,"summary":{"total":2,"pending":2,"in_progress":0,"completed":0,"cancelled":0}}`},
		{"dangling and circular parents go, good ones stay", `{"todos":[{"id":"a","content":"1","status":"pending","parent":"b"},{"id":"b","content":"2","status":"pending","parent":"a"},{"id":"c","content":"3","status":"in_progress","parent":"b"},{"id":"d","content":"4","status":"pending","parent":"zz"}]}`,
			`{"todos":[{"id":"a","content":"1","status":"pending"},{"id":"b","content":"2","status":"pending","parent":"a"},{"id":"c","content":"3","status":"in_progress","parent":"b"},{"id":"d","content":"4","status":"pending"}],"revision":5,"summary":{"total":4,"pending":3,"in_progress":1,"completed":0,"cancelled":0}}`},
		{"a list sent as text", `{"todos":"[{\"id\":\"t\",\"content\":\"x\",\"status\":\"pending\"}]"}`,
			`{"todos":[{"id":"t","content":"x","status":"pending"}],"revision":6,"summary":{"total":1,"pending":1,"in_progress":0,"completed":0,"cancelled":0}}`},
		{"an item that is no object", `{"todos":["x"]}`, `{"error":"invalid todos: item 1 is string, not an object with id, content and status"}`},
		{"a merge flag of another type", `{"merge":"maybe"}`, `{"error":"invalid merge: expected boolean, got string"}`},
		{"an empty list clears", `{"todos":[]}`, `{"todos":[],"revision":7,"summary":{"total":0,"pending":0,"in_progress":0,"completed":0,"cancelled":0}}`},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, r.call("todo", c.arguments)) })
	}
	require.Contains(t, r.call("todo_list", `{}`), `"revision":7`, "the later name reaches the same tool")
}

func TestTodoHasLimits(t *testing.T) {
	r := newRollout(t, tools.Options{})
	var items []string
	for i := range 257 {
		items = append(items, fmt.Sprintf(`{"id":"%d","content":"x","status":"pending"}`, i))
	}
	require.Contains(t, r.call("todo", `{"todos":[`+strings.Join(items, ",")+`]}`), "more than the 256 allowed")
	require.Contains(t, r.call("todo", `{}`), `"total":0`)
	long := r.do("todo", "todos", []map[string]string{{"id": "1", "content": strings.Repeat("é", 5000), "status": "pending"}})
	require.Equal(t, strings.Repeat("é", 4000), long.Get("todos.0.content").String())
}
