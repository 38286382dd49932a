package config

// Price is what a server charges, in USD per million tokens.
type Price struct{ Input, CachedInput, Output float64 }

// Price returns what the server charges, nil when the configuration does not say. A
// server that the program starts itself costs nothing unless it says otherwise.
func (s Server) Price() *Price {
	if s.PriceInput == nil && s.PriceOutput == nil && isEmbedded(&s) {
		return &Price{}
	}
	if s.PriceInput == nil || s.PriceOutput == nil {
		return nil
	}
	p := &Price{Input: *s.PriceInput, CachedInput: *s.PriceInput, Output: *s.PriceOutput}
	if s.PriceCachedInput != nil {
		p.CachedInput = *s.PriceCachedInput
	}
	return p
}

// CheckPrices returns the first field that is wrong about the prices, and what; "" and
// "" when they are in order. path is where the server is configured ("openai"), needed
// says that a budget can't do without prices.
func (s Server) CheckPrices(path string, needed bool) (field, message string) {
	switch {
	case s.PriceInput == nil && s.PriceOutput != nil:
		return "price_input", "missing beside " + path + ".price_output; write the price of a million prompt tokens in USD (0 when they are free)"
	case s.PriceOutput == nil && s.PriceInput != nil:
		return "price_output", "missing beside " + path + ".price_input; write the price of a million completion tokens in USD (0 when they are free)"
	case s.PriceCachedInput != nil && s.PriceInput == nil:
		return "price_cached_input", "counts only with " + path + ".price_input and price_output"
	case needed && s.Price() == nil:
		return "price_input", "missing; env.budget_usd can only be kept with the prices of every model server: set " + path + ".price_input and price_output in USD per million tokens (0 for a server that costs nothing)"
	}
	return "", ""
}
