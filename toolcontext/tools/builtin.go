package tools

// Builtin returns the tools of this package, for NewRegistry.
func Builtin() []Tool {
	return []Tool{Terminal(), Process(), ReadFile(), WriteFile(), Patch(), SearchFiles(), Todo()}
}
