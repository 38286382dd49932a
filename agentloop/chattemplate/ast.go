package chattemplate

// expr is an expression; eval is its value.
type expr interface {
	eval(r *renderer, s *scope) (value, error)
}

type (
	literal   struct{ v value }
	nameExpr  struct{ name string }
	listExpr  struct{ items []expr }
	tupleExpr struct{ items []expr }
	dictExpr  struct{ keys, values []expr }
	attrExpr  struct { // of.name
		of   expr
		name string
	}
	indexExpr struct{ of, at expr } // of[at]
	sliceExpr struct{ of, start, stop, step expr }
	callExpr  struct {
		fn   expr
		args callArgs
	}
	filterExpr struct {
		of   expr // nil within a filter block
		name string
		line int
		fn   filter // nil if there is no filter of that name
		args callArgs
	}
	testExpr struct {
		of   expr
		name string
		line int
		fn   predicate // nil if there is no test of that name
		args callArgs
	}
	unaryExpr struct {
		op string
		of expr
	}
	binaryExpr struct {
		op          string
		left, right expr
	}
	concatExpr  struct{ items []expr }
	compareExpr struct {
		first expr
		ops   []string
		rest  []expr
	}
	andExpr struct{ left, right expr }
	orExpr  struct{ left, right expr }
	notExpr struct{ of expr }
	ifExpr  struct{ test, then, otherwise expr }
)

// callArgs are the arguments as written.
type callArgs struct {
	positional []expr
	keywords   []string
	values     []expr // of the keywords
	star       expr   // *args
	starStar   expr   // **kwargs
}

// stmt is a statement; run appends what it renders.
type stmt interface {
	run(r *renderer, s *scope) error
}

type (
	textStmt   struct{ text string }
	outputStmt struct{ of expr }
	ifStmt     struct {
		tests     []expr
		bodies    [][]stmt
		otherwise []stmt
	}
	forStmt struct {
		target    target
		over      expr
		test      expr
		body      []stmt
		otherwise []stmt
		recursive bool
	}
	setStmt struct {
		target target
		of     expr
	}
	setBlockStmt struct {
		target  target
		filters []*filterExpr // innermost first
		body    []stmt
	}
	macroStmt struct {
		macro *macro
	}
	callStmt struct {
		call *callExpr
		body *macro // what caller() renders
	}
	filterStmt struct {
		filters []*filterExpr
		body    []stmt
	}
	withStmt struct {
		targets []target
		values  []expr
		body    []stmt
	}
	scopeStmt struct { // a block
		body []stmt
	}
	generationStmt struct{ body []stmt }
	autoescapeStmt struct {
		on   expr
		line int
		body []stmt
	}
	unavailableStmt struct { // include, import, from, extends
		tag  string
		line int
	}
	breakStmt    struct{}
	continueStmt struct{}
)

// target is what is assigned to: a name, an attribute of a namespace, or several.
type target struct {
	name  string
	attr  string // of the namespace name
	parts []target
}

type macro struct {
	name     string
	params   []string
	defaults []expr // of the last parameters
	body     []stmt
	// what the body uses beyond its parameters, which the call then may pass
	usesVarargs, usesKwargs, usesCaller bool
}
