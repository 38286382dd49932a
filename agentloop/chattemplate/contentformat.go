package chattemplate

import (
	"slices"
	"strings"
)

// contentFormat is the shape in which a template wants the content of messages. Engines
// find it out from the template.
type contentFormat byte

const (
	contentText  contentFormat = iota // one text; vLLM and SGLang call it string
	contentParts                      // a list of parts; they call it openai
)

// vllmContentFormat follows vLLM: a template that loops over the content of an item of
// messages, or over a variable of the name content, wants parts. Where vLLM gives up, as
// for a loop with several variables, it is text.
func vllmContentFormat(body []stmt) contentFormat {
	lists := []string{"messages"} // and the variables that are set to it or to a part of it
	for i := 0; i < len(lists); i++ {
		known := eachStmt(body, func(st stmt) bool {
			set, ok := st.(*setStmt)
			if !ok || !readsVariable(set.of, lists[i], "") {
				return true
			}
			if set.target.isName() && !slices.Contains(lists, set.target.name) {
				lists = append(lists, set.target.name)
			}
			return set.target.isName()
		})
		if !known {
			return contentText
		}
	}
	var messages []string // the variables that are one of them
	known := eachStmt(body, func(st stmt) bool {
		loop, ok := st.(*forStmt)
		if !ok || !slices.ContainsFunc(lists, func(list string) bool { return readsVariable(loop.over, list, "") }) {
			return true
		}
		messages = append(messages, loop.target.name)
		return loop.target.isName()
	})
	if !known {
		return contentText
	}
	format := contentText
	eachStmt(body, func(st stmt) bool {
		loop, ok := st.(*forStmt)
		if !ok {
			return true
		}
		over, ok := loop.over.(*nameExpr)
		if !(ok && over.name == "content") && !slices.ContainsFunc(messages, func(m string) bool { return readsVariable(loop.over, m, "content") }) {
			return true
		}
		if loop.target.isName() {
			format = contentParts
		}
		return false
	})
	return format
}

// sglangContentFormat follows SGLang: a template that names a medium, or that loops over
// the content of message, msg or m, wants parts.
func sglangContentFormat(source string, body []stmt) contentFormat {
	for _, medium := range []string{"image", "audio", "video", "vision"} {
		if strings.Contains(source, medium) {
			return contentParts
		}
	}
	text := eachStmt(body, func(st stmt) bool {
		loop, ok := st.(*forStmt)
		return !ok || !slices.ContainsFunc([]string{"message", "msg", "m"}, func(m string) bool { return readsVariable(loop.over, m, "content") })
	})
	if text {
		return contentText
	}
	return contentParts
}

func (t target) isName() bool { return t.parts == nil && t.attr == "" }

// readsVariable says whether an expression is a variable, or with a key the variable's
// member of that name, through any filters, tests and slices.
func readsVariable(e expr, name, key string) bool {
	switch e := e.(type) {
	case *filterExpr:
		return e.of != nil && readsVariable(e.of, name, key)
	case *testExpr:
		return readsVariable(e.of, name, key)
	case *sliceExpr:
		return readsVariable(e.of, name, key)
	case *nameExpr:
		return key == "" && e.name == name
	case *attrExpr:
		of, ok := e.of.(*nameExpr)
		return ok && key != "" && e.name == key && of.name == name
	case *indexExpr:
		of, ok := e.of.(*nameExpr)
		at, isLiteral := e.at.(*literal)
		return ok && isLiteral && key != "" && at.v == key && of.name == name
	}
	return false
}

// eachStmt calls visit for every statement, each before those within it, until visit
// returns false. It says whether all were visited.
func eachStmt(body []stmt, visit func(stmt) bool) bool {
	for _, st := range body {
		if !visit(st) {
			return false
		}
		var inner [][]stmt
		switch st := st.(type) {
		case *ifStmt:
			inner = append(append(inner, st.bodies...), st.otherwise)
		case *forStmt:
			inner = [][]stmt{st.body, st.otherwise}
		case *setBlockStmt:
			inner = [][]stmt{st.body}
		case *macroStmt:
			inner = [][]stmt{st.macro.body}
		case *callStmt:
			inner = [][]stmt{st.body.body}
		case *filterStmt:
			inner = [][]stmt{st.body}
		case *withStmt:
			inner = [][]stmt{st.body}
		case *scopeStmt:
			inner = [][]stmt{st.body}
		case *generationStmt:
			inner = [][]stmt{st.body}
		case *autoescapeStmt:
			inner = [][]stmt{st.body}
		}
		for _, body := range inner {
			if !eachStmt(body, visit) {
				return false
			}
		}
	}
	return true
}
