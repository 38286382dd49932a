package toolcontext

// Offers says whether the model may call a tool by this name: the tool's own or
// one of its other names.
func (c *Context) Offers(name string) bool {
	return c.config.Toolset.Has(c.config.Registry.Canonical(name))
}
