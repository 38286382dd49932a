package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPricesOfAServer(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	for name, c := range map[string]struct {
		server Server
		needed bool
		price  *Price
		field  string
	}{
		"nothing said":                        {Server{BaseURL: "http://a/v1"}, false, nil, ""},
		"nothing said and needed":             {Server{BaseURL: "http://a/v1"}, true, nil, "price_input"},
		"an embedded model costs nothing":     {Server{BaseURL: "replay:x"}, true, &Price{}, ""},
		"unless it says so":                   {Server{BaseURL: "replay", PriceInput: number(1), PriceOutput: number(2)}, true, &Price{1, 1, 2}, ""},
		"free":                                {Server{BaseURL: "http://a/v1", PriceInput: number(0), PriceOutput: number(0)}, true, &Price{}, ""},
		"cached tokens cost what others do":   {Server{BaseURL: "http://a/v1", PriceInput: number(3), PriceOutput: number(9)}, true, &Price{3, 3, 9}, ""},
		"or less":                             {Server{BaseURL: "http://a/v1", PriceInput: number(3), PriceCachedInput: number(0), PriceOutput: number(9)}, true, &Price{3, 0, 9}, ""},
		"one half":                            {Server{BaseURL: "http://a/v1", PriceInput: number(3)}, false, nil, "price_output"},
		"the other half":                      {Server{BaseURL: "http://a/v1", PriceOutput: number(3)}, false, nil, "price_input"},
		"cached alone":                        {Server{BaseURL: "http://a/v1", PriceCachedInput: number(3)}, false, nil, "price_cached_input"},
		"half a price of an embedded model":   {Server{BaseURL: "replay", PriceOutput: number(3)}, false, nil, "price_input"},
		"no address, as of a judge not asked": {Server{}, false, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.price, c.server.Price())
			field, message := c.server.CheckPrices("openai", c.needed)
			require.Equal(t, c.field, field)
			require.Equal(t, field == "", message == "")
		})
	}
}
